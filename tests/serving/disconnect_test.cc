#include "server/serving/disconnect.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/serving/listening_socket.h"

namespace ckn {
namespace {

// Both ends of a connection to `listener`.
struct Connection {
  explicit Connection(int listener, int port) {
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    server = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    EXPECT_GE(server, 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(client, reinterpret_cast<sockaddr*>(&address), &size), 0);
    client_name = absl::StrCat("ipv4:127.0.0.1:", ntohs(address.sin_port));
  }
  ~Connection() {
    close(client);
    close(server);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Whether its other side has gone, as its client sees it.
  [[nodiscard]] bool Ended() const {
    char byte = 0;
    return recv(client, &byte, 1, MSG_DONTWAIT) == 0;
  }

  int client = -1, server = -1;
  std::string client_name;
};

TEST(DisconnectTest, EndsTheConnectionsOfOnePortOrOfOnePeer) {
  auto socket = ListeningSocket::Open({.host = "127.0.0.1", .port = 0});
  auto other_socket = ListeningSocket::Open({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(socket.ok() && other_socket.ok());
  const int port = socket->port(), other_port = other_socket->port();
  const int listener = socket->Release(), other_listener = other_socket->Release();
  {
    const Connection a(listener, port), b(listener, port), c(listener, port), other(other_listener, other_port);
    EXPECT_EQ(Disconnect(port, "ipv4:127.0.0.1:1"), 0);
    EXPECT_EQ(Disconnect(other_port, a.client_name), 0);
    EXPECT_EQ(Disconnect(port, b.client_name), 1);
    EXPECT_TRUE(b.Ended());
    EXPECT_FALSE(a.Ended() || c.Ended() || other.Ended());
    EXPECT_GE(Disconnect(port), 2);
    EXPECT_TRUE(a.Ended() && c.Ended());
    EXPECT_FALSE(other.Ended());
  }
  // Those that listen still do.
  const Connection again(listener, port);
  close(listener);
  close(other_listener);
}

TEST(DisconnectTest, EndsTheNewestBeyondALimit) {
  auto socket = ListeningSocket::Open({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(socket.ok());
  const int port = socket->port(), listener = socket->Release();
  const Connection a(listener, port), b(listener, port), c(listener, port), d(listener, port);
  EXPECT_EQ(LimitConnections(port, 4).ended, 0);
  const ConnectionCount count = LimitConnections(port, 2);
  EXPECT_EQ(count.open, 4);
  EXPECT_EQ(count.ended, 2);
  EXPECT_TRUE(c.Ended() && d.Ended());
  EXPECT_FALSE(a.Ended() || b.Ended());
  close(listener);
}

TEST(DisconnectTest, KnowsPeersOfIpv6AsGrpcWritesThem) {
  auto socket = ListeningSocket::Open({.host = "::1", .port = 0});
  if (!socket.ok()) GTEST_SKIP() << socket.status();
  const int listener = socket->Release();
  const int client = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<std::uint16_t>(socket->port()));
  address.sin6_addr = in6addr_loopback;
  ASSERT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const int server = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  socklen_t size = sizeof address;
  ASSERT_EQ(getsockname(client, reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(Disconnect(socket->port(), absl::StrCat("ipv6:%5B::1%5D:", ntohs(address.sin6_port))), 1);
  close(client);
  close(server);
  close(listener);
}

}  // namespace
}  // namespace ckn
