#include "tests/testing/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace ckn::testing {

HttpReply HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string text;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    if (write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
      std::array<char, 4096> buffer;
      for (ssize_t got; (got = read(fd, buffer.data(), buffer.size())) > 0;) {
        text.append(buffer.data(), static_cast<std::size_t>(got));
      }
    }
  }
  close(fd);

  HttpReply reply;
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos || std::sscanf(text.c_str(), "HTTP/1.1 %d", &reply.code) != 1) return {};
  reply.head = text.substr(0, end);
  reply.body = text.substr(end + 4);
  return reply;
}

}  // namespace ckn::testing
