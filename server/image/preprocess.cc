#include "server/image/preprocess.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <opencv2/imgproc.hpp>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/image/opencv.h"

namespace ckn {
namespace {

// Luma of ITU-R BT.601 (0.299 R + 0.587 G + 0.114 B) times 1000. In integers, so that a gray picture gives the same
// map to the last bit whether it is stored with one channel or with three equal ones.
int Luma1000(const std::uint8_t* rgb) { return 299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2]; }

absl::Status ValidateImage(const ImageU8& image) {
  if (image.height < 1 || image.width < 1 || (image.channels != 1 && image.channels != 3)) {
    return absl::InvalidArgumentError(absl::StrCat("image of ", image.height, " x ", image.width, " x ", image.channels,
                                                   ", expected at least 1 x 1 and 1 or 3 channels"));
  }
  const std::size_t expected = static_cast<std::size_t>(image.height) * image.width * image.channels;
  if (image.pixels.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("image of ", image.height, " x ", image.width, " x ", image.channels,
                                                   ": got ", image.pixels.size(), " bytes of pixels, expected ",
                                                   expected));
  }
  return absl::OkStatus();
}

// (d/dx, d/dy) of a one-channel map: central differences, one-sided at the borders, 0 across a side of one pixel.
FeatureMap Gradient(const FeatureMap& gray) {
  FeatureMap out(gray.height, gray.width, 2);
  for (int y = 0; y < gray.height; ++y) {
    const int above = std::max(y - 1, 0);
    const int below = std::min(y + 1, gray.height - 1);
    const float* const row = gray.At(y, 0);
    const float* const upper = gray.At(above, 0);
    const float* const lower = gray.At(below, 0);
    float* const d = out.At(y, 0);
    // The distance is 2 inside and 1 at a border.
    const float down = below - above == 2 ? 0.5F : 1;
    const int last = gray.width - 1;
    for (int x = 0; x <= last; ++x) d[2 * x + 1] = down * (lower[x] - upper[x]);
    for (int x = 1; x < last; ++x) d[2 * x] = 0.5F * (row[x + 1] - row[x - 1]);
    d[0] = last > 0 ? row[1] - row[0] : 0;
    d[2 * last] = last > 0 ? row[last] - row[last - 1] : 0;
  }
  return out;
}

}  // namespace

absl::StatusOr<ImageU8> Resize(const ImageU8& image, int height, int width) {
  CKN_RETURN_IF_ERROR(ValidateImage(image));
  ConfigureOpenCv();
  ImageU8 out;
  out.height = height;
  out.width = width;
  out.channels = image.channels;
  out.pixels.resize(static_cast<std::size_t>(height) * width * image.channels);
  const int type = CV_8UC(image.channels);
  // OpenCV's header takes a mutable pointer; the source is only read.
  auto* const source_data = const_cast<std::uint8_t*>(image.pixels.data());  // NOLINT
  const cv::Mat source(image.height, image.width, type, source_data);
  cv::Mat target(height, width, type, out.pixels.data());
  // Mere sampling would alias.
  const bool shrinks = height <= image.height && width <= image.width;
  try {
    cv::resize(source, target, target.size(), 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("cannot resize the image: ", error.what()));
  }
  return out;
}

absl::StatusOr<ImageU8> MirrorLeftRight(const ImageU8& image) {
  CKN_RETURN_IF_ERROR(ValidateImage(image));
  ImageU8 out = image;
  const std::size_t row = static_cast<std::size_t>(image.width) * image.channels;
  for (std::size_t first = 0; first < image.pixels.size(); first += row) {
    for (int x = 0; x < image.width; ++x) {
      const auto from = image.pixels.begin() + static_cast<std::ptrdiff_t>(first) + std::ptrdiff_t{x} * image.channels;
      const auto to = static_cast<std::ptrdiff_t>(first + row) - std::ptrdiff_t{x + 1} * image.channels;
      std::copy_n(from, image.channels, out.pixels.begin() + to);
    }
  }
  return out;
}

absl::StatusOr<FeatureMap> Preprocess(const ImageU8& image, const InputSpec& spec) {
  CKN_RETURN_IF_ERROR(ValidateImage(image));
  ImageU8 resized;
  const ImageU8* source = &image;
  if (image.height != spec.height || image.width != spec.width) {
    if (spec.resize == ResizePolicy::kReject) {
      return absl::InvalidArgumentError(absl::StrCat("image of ", image.height, " x ", image.width,
                                                     " pixels (height x width), expected ", spec.height, " x ",
                                                     spec.width));
    }
    CKN_ASSIGN_OR_RETURN(resized, Resize(image, spec.height, spec.width));
    source = &resized;
  }

  const bool gradient = spec.map == InputMap::kGradient;
  const int channels = gradient ? 1 : spec.channels;
  FeatureMap map(spec.height, spec.width, channels);
  const std::size_t pixels = static_cast<std::size_t>(spec.height) * spec.width;
  const std::uint8_t* const in = source->pixels.data();
  float* const out = map.values.data();
  // Divisions, not products with an inverse: they round to the nearest number.
  if (source->channels == channels) {
    for (std::size_t i = 0; i < pixels * static_cast<std::size_t>(channels); ++i) {
      out[i] = static_cast<float>(in[i]) / 255;
    }
  } else if (channels == 1) {
    for (std::size_t i = 0; i < pixels; ++i) out[i] = static_cast<float>(Luma1000(in + 3 * i)) / 255000;
  } else {
    for (std::size_t i = 0; i < pixels; ++i) {
      std::fill_n(out + 3 * i, 3, static_cast<float>(in[i]) / 255);
    }
  }
  return gradient ? Gradient(map) : map;
}

}  // namespace ckn
