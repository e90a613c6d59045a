#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
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

// Why no socket can listen on `address`, from the operating system: for the servers of libraries, which only say that
// they failed. ALREADY_EXISTS: the port is taken; NOT_FOUND: the host is unknown; FAILED_PRECONDITION: any other
// reason; OK: a socket can listen.
absl::Status CheckCanListen(const HostPort& address);

}  // namespace ckn
