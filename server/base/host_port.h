#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ckn {

// Where a server listens.
struct HostPort {
  std::string host;  // name, IPv4 or IPv6 address, without brackets
  int port = 0;      // 0: any free port

  // "HOST:PORT", an IPv6 address in brackets.
  [[nodiscard]] std::string ToString() const;
};

// Parses HOST:PORT; an IPv6 host is in brackets, PORT is 0..65535. INVALID_ARGUMENT says what was expected.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

}  // namespace ckn
