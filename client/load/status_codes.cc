#include "client/load/status_codes.h"

namespace ckn {

std::size_t CodeIndex(int code) {
  return static_cast<std::size_t>(code >= 0 && code < kStatusCodes ? code
                                                                   : static_cast<int>(absl::StatusCode::kUnknown));
}

std::optional<absl::StatusCode> ParseStatusCode(std::string_view name) {
  for (int code = 0; code < kStatusCodes; ++code) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(code)) == name) {
      return static_cast<absl::StatusCode>(code);
    }
  }
  return std::nullopt;
}

}  // namespace ckn
