#include "server/image/decode.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/image/codecs.h"
#include "server/image/file_header.h"
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
    case FileFormat::kWebp:
    case FileFormat::kBmp:
    case FileFormat::kTiff:
      return DecodeWithOpenCv(file, header);
  }
  return absl::InternalError("unreachable");
}

}  // namespace

void ConfigureOpenCv() {
  static const bool done = [] {
    cv::setNumThreads(0);
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    return true;
  }();
  static_cast<void>(done);
}

absl::StatusOr<ImageU8> DecodeWithOpenCv(std::span<const std::byte> file, const FileHeader& header) {
  const char* const format = FormatName(header.format);
  // OpenCV's own interface takes a mutable pointer and an int; it only reads.
  if (file.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(format, ": files of 2 GiB and more are not supported"));
  }
  auto* const data = const_cast<std::byte*>(file.data());  // NOLINT
  const cv::Mat bytes(1, static_cast<int>(file.size()), CV_8UC1, data);
  // Unchanged: alpha and 16 bits are reduced below, in the one way that decode.h documents.
  const cv::Mat decoded = cv::imdecode(bytes, cv::IMREAD_UNCHANGED);
  // The header was read here and by OpenCV; a file on which the two differ is not one to trust.
  const auto pixels = static_cast<std::int64_t>(decoded.total());
  if (decoded.empty() || pixels != header.width * header.height) {
    return absl::InvalidArgumentError(absl::StrCat(format, ": broken or cut off"));
  }
  const int channels = decoded.channels();
  if ((decoded.depth() != CV_8U && decoded.depth() != CV_16U) || channels == 2 || channels > 4) {
    return absl::InvalidArgumentError(absl::StrCat(format, ": sample type not supported"));
  }

  ImageU8 image;
  image.height = decoded.rows;
  image.width = decoded.cols;
  image.channels = channels == 1 ? 1 : 3;
  image.pixels.resize(decoded.total() * static_cast<std::size_t>(image.channels));
  const bool compose = channels == 4 && header.straight_alpha;
  std::uint8_t* out = image.pixels.data();
  for (int y = 0; y < decoded.rows; ++y) {
    const auto sample = [&decoded, y](int i) -> unsigned {
      return decoded.depth() == CV_8U ? decoded.ptr<std::uint8_t>(y)[i] : decoded.ptr<std::uint16_t>(y)[i] >> 8U;
    };
    for (int x = 0; x < decoded.cols; ++x) {
      const unsigned alpha = compose ? sample(x * channels + 3) : 255;
      for (int c = 0; c < image.channels; ++c) {
        const int source = channels == 1 ? 0 : 2 - c;  // stored B, G, R
        *out++ = OverBlack(sample(x * channels + source), alpha);
      }
    }
  }
  return image;
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
