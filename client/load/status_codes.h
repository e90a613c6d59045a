#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace ckn {

// gRPC's codes are 0 to 16.
constexpr int kStatusCodes = 17;

// How many of something there are by code.
using CodeCounts = std::array<std::int64_t, kStatusCodes>;
// The index of a code; that of UNKNOWN for a number that is none.
std::size_t CodeIndex(int code);

// "RESOURCE_EXHAUSTED" and so on.
std::optional<absl::StatusCode> ParseStatusCode(std::string_view name);

}  // namespace ckn
