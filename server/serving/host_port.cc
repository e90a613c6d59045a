#include "server/serving/host_port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/quote.h"

namespace ckn {

std::string HostPort::ToString() const {
  const bool brackets = host.find(':') != std::string::npos;
  return absl::StrCat(brackets ? "[" : "", host, brackets ? "]:" : ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const auto bad = [&](std::string_view reason) {
    return absl::InvalidArgumentError(absl::StrCat("address ", Quote(text), ": ", std::string(reason),
                                                   "; expected HOST:PORT, such as 127.0.0.1:8500 or [::1]:8500"));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    return bad("an IPv6 address needs brackets");
  }
  if (host.empty()) return bad("no host");

  int port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size() || port < 0 || port > 65535) {
    return bad("the port is not a number from 0 to 65535");
  }
  return HostPort{.host = std::string(host), .port = port};
}

absl::StatusOr<ListeningSocket> ListeningSocket::Open(const HostPort& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
      error != 0) {
    return absl::NotFoundError(absl::StrCat("host ", Quote(address.host), ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    ListeningSocket socket(::socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol), 0);
    // A port whose last connections linger is free again; one that is listened on stays taken.
    const int on = 1;
    if (socket.fd_ >= 0 && setsockopt(socket.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(socket.fd_, info->ai_addr, info->ai_addrlen) == 0 && listen(socket.fd_, SOMAXCONN) == 0) {
      sockaddr_storage bound{};
      socklen_t size = sizeof(bound);
      if (getsockname(socket.fd_, reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
        // The port has the same place and byte order in the addresses of both families.
        socket.port_ = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
        return socket;
      }
    }
    error = errno;
    if (error != EAFNOSUPPORT && error != EADDRNOTAVAIL) break;
  }
  const std::string message =
      absl::StrCat("cannot listen on ", address.ToString(), ": ", std::generic_category().message(error));
  return error == EADDRINUSE ? absl::AlreadyExistsError(message) : absl::FailedPreconditionError(message);
}

ListeningSocket::~ListeningSocket() {
  if (fd_ >= 0) close(fd_);
}

int ListeningSocket::Release() { return std::exchange(fd_, -1); }

}  // namespace ckn
