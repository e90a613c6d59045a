#include "server/serving/open_inference_input.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/endian.h"
#include "server/base/quote.h"
#include "server/base/status.h"
#include "server/image/decode.h"

namespace ckn {
namespace {

using InputTensor = inference::ModelInferRequest::InferInputTensor;

constexpr const char* kFilesName = "image";
constexpr const char* kPixelsName = "pixels";

absl::Status Bad(const std::string& message) { return absl::InvalidArgumentError(message); }

// As far as it is of use.
std::string Shape(const InputTensor& tensor) {
  constexpr int kShown = 8;
  const int shown = std::min(tensor.shape_size(), kShown);
  return absl::StrCat("[", absl::StrJoin(tensor.shape().begin(), tensor.shape().begin() + shown, ", "),
                      shown < tensor.shape_size() ? ", ..." : "", "]");
}

// Every list of contents but this one is empty in a tensor of one datatype.
int ContentsSize(const inference::InferTensorContents& contents) {
  return contents.bool_contents_size() + contents.int_contents_size() + contents.int64_contents_size() +
         contents.uint_contents_size() + contents.uint64_contents_size() + contents.fp32_contents_size() +
         contents.fp64_contents_size() + contents.bytes_contents_size();
}

// The number of elements of a shape; INVALID_ARGUMENT when a dimension is not positive or their product is too large.
absl::StatusOr<std::int64_t> ElementCount(const InputTensor& tensor, std::int64_t max) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape()) {
    if (size < 1) return Bad(absl::StrCat("shape ", Shape(tensor), ", expected positive dimensions"));
    if (count > max / size) {
      return Bad(absl::StrCat("shape ", Shape(tensor), " has too many elements, the limit is ", max));
    }
    count *= size;
  }
  return count;
}

absl::Status CheckCount(std::int64_t got, std::int64_t expected, const char* what, const InputTensor& tensor) {
  if (got == expected) return absl::OkStatus();
  return Bad(absl::StrCat(got, " ", what, ", expected ", expected, " for shape ", Shape(tensor)));
}

// Where the channels of a tensor of four dimensions are.
absl::StatusOr<bool> ChannelsFirst(const InputTensor& tensor) {
  const auto is_channels = [&](int dimension) { return tensor.shape(dimension) == 1 || tensor.shape(dimension) == 3; };
  const auto layout = tensor.parameters().find("layout");
  if (layout != tensor.parameters().end()) {
    const std::string& name = layout->second.string_param();
    if (name != "NHWC" && name != "NCHW") {
      return Bad(absl::StrCat("parameter layout: got ", Quote(name), R"(, expected "NHWC" or "NCHW")"));
    }
    const bool first = name == "NCHW";
    if (is_channels(first ? 1 : 3)) return first;
    return Bad(absl::StrCat("shape ", Shape(tensor), " of layout ", name, ", expected 1 or 3 channels"));
  }
  if (is_channels(3)) return false;
  if (is_channels(1)) return true;
  return Bad(absl::StrCat("shape ", Shape(tensor), ", expected 1 or 3 channels, as [N, height, width, channels] or ",
                          "[N, channels, height, width]"));
}

absl::StatusOr<std::vector<std::string_view>> SplitRawBytes(std::string_view raw, std::int64_t count) {
  std::vector<std::string_view> elements;
  elements.reserve(static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < raw.size();) {
    std::uint32_t length = 0;
    const std::string where = absl::StrCat("element ", elements.size());
    if (raw.size() - at < sizeof(length)) return Bad(where + ": truncated, expected 4 bytes of length");
    std::memcpy(&length, raw.data() + at, sizeof(length));
    length = LittleEndian32(length);
    at += sizeof(length);
    if (length > raw.size() - at) {
      return Bad(absl::StrCat(where, ": ", length, " bytes, but only ", raw.size() - at, " are left"));
    }
    if (std::cmp_equal(elements.size(), count))
      return Bad(absl::StrCat("more elements than the ", count, " of its shape"));
    elements.push_back(raw.substr(at, length));
    at += length;
  }
  return elements;
}

}  // namespace

absl::StatusOr<InferImages> InferImages::Parse(const inference::ModelInferRequest& request,
                                               const InferenceLimits& limits) {
  if (request.inputs_size() != 1) {
    return Bad(absl::StrCat("inputs: ", request.inputs_size(), " tensors, expected one, \"", kFilesName, "\" or \"",
                            kPixelsName, "\""));
  }
  const InputTensor& tensor = request.inputs(0);
  const int raw = request.raw_input_contents_size();
  if (raw > 0 && ContentsSize(tensor.contents()) > 0) {
    return Bad("inputs: got contents and raw_input_contents, expected one of them");
  }
  if (raw > 1) return Bad(absl::StrCat("raw_input_contents: ", raw, " elements, expected one an input"));
  for (const auto& [name, value] : tensor.parameters()) {
    // Others are hints, which some clients send with every tensor.
    if (name.rfind("shared_memory", 0) == 0) {
      return Bad(absl::StrCat("input ", Quote(tensor.name()), ": parameter ", Quote(name), " is not supported"));
    }
  }
  absl::StatusOr<InferImages> images =
      tensor.name() == kFilesName ? ParseFiles(request, limits)
      : tensor.name() == kPixelsName
          ? ParsePixels(request, limits)
          : Bad(absl::StrCat("unknown name, expected \"", kFilesName, "\" or \"", kPixelsName, "\""));
  CKN_RETURN_IF_ERROR(Annotate(images.status(), absl::StrCat("input ", Quote(tensor.name()))));
  images->raw_ = raw > 0;
  images->max_pixels_ = limits.max_pixels;
  return images;
}

absl::StatusOr<InferImages> InferImages::ParseFiles(const inference::ModelInferRequest& request,
                                                    const InferenceLimits& limits) {
  const InputTensor& tensor = request.inputs(0);
  if (tensor.datatype() != "BYTES") {
    return Bad(absl::StrCat("datatype ", Quote(tensor.datatype()), R"(, expected "BYTES"; pixels are the input )",
                            Quote(kPixelsName)));
  }
  const bool column = tensor.shape_size() == 2 && tensor.shape(1) == 1;
  if (tensor.shape_size() != 1 && !column) {
    return Bad(absl::StrCat("shape ", Shape(tensor), ", expected [N] or [N, 1]"));
  }
  CKN_ASSIGN_OR_RETURN(const std::int64_t count, ElementCount(tensor, limits.max_images));
  InferImages images;
  images.kind_ = Kind::kFiles;
  images.count_ = static_cast<int>(count);
  if (request.raw_input_contents_size() > 0) {
    CKN_ASSIGN_OR_RETURN(images.files_, SplitRawBytes(request.raw_input_contents(0), count));
  } else {
    images.files_.assign(tensor.contents().bytes_contents().begin(), tensor.contents().bytes_contents().end());
  }
  CKN_RETURN_IF_ERROR(CheckCount(static_cast<std::int64_t>(images.files_.size()), count, "elements", tensor));
  return images;
}

absl::StatusOr<InferImages> InferImages::ParsePixels(const inference::ModelInferRequest& request,
                                                     const InferenceLimits& limits) {
  const InputTensor& tensor = request.inputs(0);
  InferImages images;
  if (tensor.datatype() == "UINT8") {
    images.kind_ = Kind::kUint8;
  } else if (tensor.datatype() == "FP32") {
    images.kind_ = Kind::kFp32;
  } else {
    return Bad(absl::StrCat("datatype ", Quote(tensor.datatype()), R"(, expected "UINT8" or "FP32")"));
  }
  if (tensor.shape_size() != 3 && tensor.shape_size() != 4) {
    return Bad(absl::StrCat("shape ", Shape(tensor), ", expected [N, height, width, channels], ",
                            "[N, channels, height, width] or [N, height, width]"));
  }
  if (tensor.shape_size() == 3 && tensor.parameters().contains("layout")) {
    return Bad(absl::StrCat("parameter layout: expected none with shape ", Shape(tensor)));
  }
  CKN_ASSIGN_OR_RETURN(const std::int64_t elements, ElementCount(tensor, std::numeric_limits<std::int32_t>::max()));
  if (tensor.shape_size() == 4) {
    CKN_ASSIGN_OR_RETURN(images.channels_first_, ChannelsFirst(tensor));
  }
  const int rows = images.channels_first_ ? 2 : 1;
  if (tensor.shape(0) > limits.max_images) {
    return Bad(absl::StrCat("shape ", Shape(tensor), ": ", tensor.shape(0), " images in one call, the limit is ",
                            limits.max_images));
  }
  // The product of all dimensions fits an int, so each does.
  images.count_ = static_cast<int>(tensor.shape(0));
  images.height_ = static_cast<int>(tensor.shape(rows));
  images.width_ = static_cast<int>(tensor.shape(rows + 1));
  images.channels_ = tensor.shape_size() == 3 ? 1 : static_cast<int>(tensor.shape(images.channels_first_ ? 1 : 3));
  if (std::int64_t{images.height_} * images.width_ > limits.max_pixels) {
    return Bad(absl::StrCat("shape ", Shape(tensor), ": ", images.height_, "x", images.width_, " pixels, the limit is ",
                            limits.max_pixels));
  }
  const bool fp32 = images.kind_ == Kind::kFp32;
  if (request.raw_input_contents_size() > 0) {
    images.bytes_ = request.raw_input_contents(0);
    CKN_RETURN_IF_ERROR(CheckCount(static_cast<std::int64_t>(images.bytes_.size()), fp32 ? 4 * elements : elements,
                                   "bytes of raw contents", tensor));
    return images;
  }
  images.contents_ = &tensor.contents();
  const int got = fp32 ? images.contents_->fp32_contents_size() : images.contents_->uint_contents_size();
  CKN_RETURN_IF_ERROR(CheckCount(got, elements, fp32 ? "fp32_contents" : "uint_contents", tensor));
  return images;
}

absl::Status InferImages::Values(std::size_t first, std::span<std::uint8_t> out) const {
  if (kind_ == Kind::kUint8) {
    if (contents_ == nullptr) {
      std::memcpy(out.data(), bytes_.data() + first, out.size());
      return absl::OkStatus();
    }
    const std::uint32_t* const values = contents_->uint_contents().data() + first;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (values[i] > 255) return Bad(absl::StrCat("value ", values[i], ", expected 0 to 255"));
      out[i] = static_cast<std::uint8_t>(values[i]);
    }
    return absl::OkStatus();
  }
  std::vector<float> copied;
  const float* values = nullptr;
  if (contents_ == nullptr) {
    copied.resize(out.size());
    ReadFloats(bytes_.substr(sizeof(float) * first, sizeof(float) * out.size()), copied);
    values = copied.data();
  } else {
    values = contents_->fp32_contents().data() + first;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!(values[i] >= 0 && values[i] <= 1)) {
      return Bad(absl::StrFormat("value %.9g, expected FP32 pixels in [0, 1]; for 0 to 255 use UINT8", values[i]));
    }
    out[i] = static_cast<std::uint8_t>(std::lround(255 * values[i]));
  }
  return absl::OkStatus();
}

std::int64_t InferImages::Pixels(int image) const {
  if (kind_ != Kind::kFiles) return std::int64_t{height_} * width_;
  return PixelsOf(std::as_bytes(std::span(files_[static_cast<std::size_t>(image)])));
}

absl::StatusOr<ImageU8> InferImages::Decode(int image) const {
  if (kind_ == Kind::kFiles) {
    const std::string_view file = files_[static_cast<std::size_t>(image)];
    return ckn::Decode(std::as_bytes(std::span(file)), {.max_pixels = max_pixels_});
  }
  ImageU8 out{.height = height_, .width = width_, .channels = channels_, .pixels = {}};
  const std::size_t area = static_cast<std::size_t>(height_) * static_cast<std::size_t>(width_);
  const auto channels = static_cast<std::size_t>(channels_);
  const std::size_t first = static_cast<std::size_t>(image) * area * channels;
  out.pixels.resize(area * channels);
  if (!channels_first_ || channels == 1) {
    CKN_RETURN_IF_ERROR(Values(first, out.pixels));
    return out;
  }
  std::vector<std::uint8_t> planes(out.pixels.size());
  CKN_RETURN_IF_ERROR(Values(first, planes));
  for (std::size_t place = 0; place < area; ++place) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      out.pixels[place * channels + channel] = planes[channel * area + place];
    }
  }
  return out;
}

}  // namespace ckn
