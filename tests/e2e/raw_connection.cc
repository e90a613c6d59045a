#include "tests/e2e/raw_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace ckn::testing {

RawConnection::RawConnection(int port, int receive_buffer) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    std::perror("connect");
    std::abort();
  }
}

RawConnection::RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RawConnection::~RawConnection() {
  if (fd_ >= 0) close(fd_);
}

void RawConnection::Send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // closed by the server
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void RawConnection::SendHttp2Preface() const {
  Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  Send(std::string_view("\0\0\0\4\0\0\0\0\0", 9));
}

void RawConnection::SendHttp2Ping() const { Send(std::string_view("\0\0\x08\6\0\0\0\0\0pingpong", 17)); }

void RawConnection::SendGrpcRequest(std::string_view path, std::string_view message) const {
  const auto number = [](std::size_t value, int bytes) {
    std::string text;
    for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i) & 0xFFU));
    return text;
  };
  const auto frame = [&](int type, int flags, int stream, const std::string& payload) {
    Send(number(payload.size(), 3) + number(static_cast<std::size_t>(type), 1) +
         number(static_cast<std::size_t>(flags), 1) + number(static_cast<std::size_t>(stream), 4) + payload);
  };
  constexpr int kData = 0, kHeaders = 1, kSettings = 4, kWindowUpdate = 8;
  constexpr int kEndStream = 1, kEndHeaders = 4;
  constexpr std::size_t kWidest = 0x7FFFFFFF, kAtFirst = 65535;
  frame(kSettings, 0, 0, number(4, 2) + number(kWidest, 4));  // SETTINGS_INITIAL_WINDOW_SIZE
  frame(kWindowUpdate, 0, 0, number(kWidest - kAtFirst, 4));
  // HPACK: literals without indexing, with new names; all are shorter than 127 bytes.
  std::string headers;
  const auto header = [&](std::string_view name, std::string_view value) {
    headers += std::string(1, '\0') + number(name.size(), 1) + std::string(name) + number(value.size(), 1) +
               std::string(value);
  };
  header(":method", "POST");
  header(":scheme", "http");
  header(":path", path);
  header(":authority", "localhost");
  header("te", "trailers");
  header("content-type", "application/grpc");
  frame(kHeaders, kEndHeaders, 1, headers);
  frame(kData, kEndStream, 1, std::string(1, '\0') + number(message.size(), 4) + std::string(message));
}

std::size_t RawConnection::ReadSome() const {
  std::string bytes(4096, '\0');
  return static_cast<std::size_t>(std::max<ssize_t>(recv(fd_, bytes.data(), bytes.size(), 0), 0));
}

std::optional<RawConnection::Http2Frame> RawConnection::ReadHttp2Frame() const {
  std::string header(9, '\0');
  if (!ReadExactly(header)) return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(header[i])); };
  Http2Frame frame{.type = static_cast<int>(byte(3)), .flags = static_cast<int>(byte(4)), .payload = {}};
  frame.payload.resize(byte(0) << 16 | byte(1) << 8 | byte(2));
  if (!ReadExactly(frame.payload)) return std::nullopt;
  return frame;
}

bool RawConnection::ReadExactly(std::string& bytes) const {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = recv(fd_, bytes.data() + done, bytes.size() - done, 0);
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace ckn::testing
