#include "tests/e2e/raw_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace ckn::testing {

RawConnection::RawConnection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
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
