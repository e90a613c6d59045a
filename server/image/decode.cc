#include "server/image/decode.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <opencv2/core.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/image/bmp.h"
#include "server/image/codecs.h"
#include "server/image/file_header.h"
#include "server/image/opencv.h"
#include "server/image/pnm.h"

namespace ckn {
namespace {

// Turns and mirrors the stored picture upright, as EXIF and TIFF define the eight orientations.
void ApplyOrientation(int orientation, ImageU8& image) {
  if (orientation == 1) return;
  const cv::Mat stored(image.height, image.width, CV_8UC(image.channels), image.pixels.data());
  cv::Mat upright = stored;
  if (orientation >= 5) cv::transpose(stored, upright);
  // flip codes: 0 upside down, 1 left to right, -1 both.
  switch (orientation) {
    case 2:
    case 6:
      cv::flip(upright, upright, 1);
      break;
    case 3:
    case 7:
      cv::flip(upright, upright, -1);
      break;
    case 4:
    case 8:
      cv::flip(upright, upright, 0);
      break;
    default:
      break;
  }
  std::vector<std::uint8_t> pixels(upright.datastart, upright.dataend);
  image.pixels = std::move(pixels);
  image.height = upright.rows;
  image.width = upright.cols;
}

absl::StatusOr<ImageU8> DecodePixels(std::span<const std::byte> file, const FileHeader& header) {
  switch (header.format) {
    case FileFormat::kPng:
      return DecodePng(file, header);
    case FileFormat::kJpeg:
      return DecodeJpeg(file, header);
    case FileFormat::kPnm:
      return DecodePnm(file);
    case FileFormat::kBmp:
      return DecodeBmp(file);
    case FileFormat::kWebp:
      return DecodeWebp(file, header);
    case FileFormat::kTiff:
      return DecodeTiff(file, header);
  }
  return absl::InternalError("unreachable");
}

}  // namespace

std::int64_t PixelsOf(std::span<const std::byte> file) {
  const absl::StatusOr<FileHeader> header = ReadFileHeader(file);
  if (!header.ok()) return 0;
  // Sides may be anything up to 2^32; what is above the limits is never decoded.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;
  const std::int64_t pixels = header->width > kMost / header->height ? kMost : header->width * header->height;
  return std::max(pixels, header->buffer_pixels);
}

absl::StatusOr<ImageU8> Decode(std::span<const std::byte> file, const DecodeLimits& limits) {
  CKN_ASSIGN_OR_RETURN(const FileHeader header, ReadFileHeader(file));
  if (header.width > limits.max_pixels / header.height) {
    return absl::InvalidArgumentError(absl::StrCat(FormatName(header.format), ": got ", header.width, " x ",
                                                   header.height, " pixels, expected at most ", limits.max_pixels,
                                                   " in all"));
  }
  if (header.buffer_pixels > limits.max_pixels) {
    return absl::InvalidArgumentError(absl::StrCat(FormatName(header.format), ": got strips of ", header.buffer_pixels,
                                                   " pixels, expected at most ", limits.max_pixels));
  }
  ConfigureOpenCv();
  try {
    CKN_ASSIGN_OR_RETURN(ImageU8 image, DecodePixels(file, header));
    ApplyOrientation(header.orientation, image);
    return image;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat(FormatName(header.format), ": no memory for ", header.width, " x ", header.height, " pixels"));
  } catch (const std::exception& error) {  // cv::Exception
    return absl::InvalidArgumentError(absl::StrCat(FormatName(header.format), ": ", error.what()));
  }
}

}  // namespace ckn
