#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "server/image/file_header.h"
#include "server/image/image.h"

// The decoders behind Decode(), with bmp.h and pnm.h. Each takes a file whose header was read and whose size was
// checked against the limit, and gives the picture as stored (orientation not applied), gray or RGB, alpha composed
// over black. Each uses the format's own library: it prints nothing and does not pass as a picture what the library
// only warns about.
namespace ckn {

absl::StatusOr<ImageU8> DecodePng(std::span<const std::byte> file, const FileHeader& header);
absl::StatusOr<ImageU8> DecodeJpeg(std::span<const std::byte> file, const FileHeader& header);
absl::StatusOr<ImageU8> DecodeTiff(std::span<const std::byte> file, const FileHeader& header);
absl::StatusOr<ImageU8> DecodeWebp(std::span<const std::byte> file, const FileHeader& header);

// Both turn an image of 2 or 4 channels into one of 1 or 3: the last channel is an alpha that the colours are still to
// be multiplied by, or one that they have been multiplied by already.
void ComposeOverBlack(ImageU8& image);
void DropAlpha(ImageU8& image);

}  // namespace ckn
