#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace ckn {

struct DecodeLimits {
  std::int64_t max_pixels = std::int64_t{1} << 24;  // height * width, checked before the pixels are allocated
};

// The pixels that decoding a file takes to make, as its header says; 0 when there is no such file. Without decoding and
// without allocating.
std::int64_t PixelsOf(std::span<const std::byte> file);

// Decodes an image file (PNG, JPEG, WebP, BMP, TIFF, PNM; told by its content, not its name) into gray or RGB.
// 16-bit samples keep their upper 8 bits; alpha is composed over black.
// INVALID_ARGUMENT with the reason: empty, unknown format, broken or truncated, more pixels than the limit.
absl::StatusOr<ImageU8> Decode(std::span<const std::byte> file, const DecodeLimits& limits);

}  // namespace ckn
