#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ckn {

// An address to listen on.
struct HostPort {
  std::string host;  // name, IPv4 or IPv6 address, without brackets
  int port = 0;      // 0: any free port

  // "HOST:PORT", an IPv6 address in brackets.
  [[nodiscard]] std::string ToString() const;
};

// Parses HOST:PORT; an IPv6 host is in brackets, PORT is 0..65535. INVALID_ARGUMENT says what was expected.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

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
