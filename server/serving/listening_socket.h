#pragma once

#include "absl/status/statusor.h"
#include "server/base/host_port.h"

namespace ckn {

// A TCP socket that listens; closed with this object.
class ListeningSocket {
 public:
  // On the first address of the host that this machine has. Not shared: ALREADY_EXISTS when another socket listens
  // there; NOT_FOUND: the host is unknown; FAILED_PRECONDITION: any other reason of the operating system, which is
  // given.
  static absl::StatusOr<ListeningSocket> Open(const HostPort& address);

  ListeningSocket(ListeningSocket&& other) noexcept : fd_(other.Release()), port_(other.port_) {}
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  // The port in use, also when 0 was asked for.
  [[nodiscard]] int port() const { return port_; }
  // Hands the descriptor over.
  int Release();

 private:
  ListeningSocket(int fd, int port) : fd_(fd), port_(port) {}

  int fd_;
  int port_;
};

}  // namespace ckn
