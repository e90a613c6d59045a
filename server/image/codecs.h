#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "server/image/file_header.h"
#include "server/image/image.h"

// The decoders behind Decode(). Each takes a file whose header was read and whose size was checked against the limit,
// and gives the picture as stored (orientation not applied), gray or RGB, alpha composed over black.
// PNG and JPEG use libpng and libjpeg themselves: behind OpenCV both print on stderr, and damaged JPEG data, which
// libjpeg only warns about, would pass as a picture.
namespace ckn {

absl::StatusOr<ImageU8> DecodePng(std::span<const std::byte> file, const FileHeader& header);
absl::StatusOr<ImageU8> DecodeJpeg(std::span<const std::byte> file, const FileHeader& header);
// WebP, BMP and TIFF.
absl::StatusOr<ImageU8> DecodeWithOpenCv(std::span<const std::byte> file, const FileHeader& header);

// value * alpha / 255, rounded: a sample composed over black.
constexpr std::uint8_t OverBlack(unsigned value, unsigned alpha) {
  return static_cast<std::uint8_t>((value * alpha + 127) / 255);
}

// Turns off OpenCV's own threads and messages, once a process; call it before any other OpenCV function.
void ConfigureOpenCv();

}  // namespace ckn
