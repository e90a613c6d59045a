#include "server/serving/listening_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/quote.h"

namespace ckn {

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
