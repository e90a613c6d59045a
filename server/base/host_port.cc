#include "server/base/host_port.h"

#include <charconv>
#include <system_error>

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
  if (text.find("://") != std::string_view::npos) return bad("it has a scheme");
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

}  // namespace ckn
