#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "server/image/image.h"

// Windows bitmaps with an information header of 40 bytes or more: palettes of 1, 4 and 8 bits, plain or run-length
// coded, and colours of 16, 24 and 32 bits.
namespace ckn {

struct BmpHeader {
  // Bits of a pixel that hold a sample, and the largest value that fits; 0 of 0: there is none.
  struct Mask {
    std::uint32_t shift = 0;
    std::uint32_t max_value = 0;
  };

  std::int64_t width = 0;
  std::int64_t height = 0;
  bool from_top = false;  // the order of the rows
  std::uint32_t depth = 0;
  bool run_length = false;
  std::size_t palette = 0;  // offset of the first of `colours` entries B, G, R, 0
  std::size_t colours = 0;
  std::array<Mask, 4> masks = {};  // R, G, B and alpha, for 16 and 32 bits
  std::size_t data = 0;            // offset of the first row
};

// INVALID_ARGUMENT: malformed, cut off, or a kind that is not supported. The rows of files that are not run-length
// coded lie inside the file.
absl::StatusOr<BmpHeader> ReadBmpHeader(std::span<const std::byte> file);

// Gray when all colours of the palette are. The caller has checked the header's size against its limit.
absl::StatusOr<ImageU8> DecodeBmp(std::span<const std::byte> file);

}  // namespace ckn
