#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "server/image/image.h"

// PBM, PGM and PPM, text and binary (P1 to P6). Written here because OpenCV 4.6 does not scale binary files whose
// maximal value is not 255 or 65535.
namespace ckn {

struct PnmHeader {
  char kind = 0;  // '1' to '6'
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t max_value = 1;  // 1 to 65535
  std::size_t data = 0;        // offset of the first sample
};

// INVALID_ARGUMENT: malformed or cut off.
absl::StatusOr<PnmHeader> ReadPnmHeader(std::span<const std::byte> file);

// The first picture of the file. The caller has checked the header's size against its limit.
absl::StatusOr<ImageU8> DecodePnm(std::span<const std::byte> file);

}  // namespace ckn
