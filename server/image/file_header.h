#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

// What an image file says about itself in front of its pixels, read without decoding and without allocating.
namespace ckn {

enum class FileFormat { kPng, kJpeg, kWebp, kBmp, kTiff, kPnm };

const char* FormatName(FileFormat format);

struct FileHeader {
  FileFormat format = FileFormat::kPng;
  std::int64_t width = 0;  // as stored, before `orientation` is applied; both >= 1
  std::int64_t height = 0;
  // 1..8 as in EXIF; 1 when the file names none or an invalid one.
  int orientation = 1;
  // TIFF: pixels of a strip, which the decoder buffers beside the picture; 0 for the others.
  std::int64_t buffer_pixels = 0;
};

// INVALID_ARGUMENT: empty, unknown format, a header that is broken or cut off, or a variant that is not supported
// (animation, CMYK, floating point, tiles); the message says which.
absl::StatusOr<FileHeader> ReadFileHeader(std::span<const std::byte> file);

}  // namespace ckn
