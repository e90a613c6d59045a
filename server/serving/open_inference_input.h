#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "inference/open_inference.pb.h"
#include "server/image/image.h"
#include "server/serving/inference_core.h"

namespace ckn {

// The images of a ModelInferRequest, see proto/inference/open_inference.proto: views into the request, which must
// outlive this.
class InferImages {
 public:
  // Everything but the pixels themselves is checked here, before memory is asked for. INVALID_ARGUMENT names the
  // tensor, what was got and what was expected.
  static absl::StatusOr<InferImages> Parse(const inference::ModelInferRequest& request, const InferenceLimits& limits);

  [[nodiscard]] int count() const { return count_; }
  // Whether the contents came raw.
  [[nodiscard]] bool raw() const { return raw_; }
  // As its file's header says, or its tensor's shape; 0 when there is no such file.
  [[nodiscard]] std::int64_t Pixels(int image) const;
  // INVALID_ARGUMENT: not an image, or a value out of range.
  [[nodiscard]] absl::StatusOr<ImageU8> Decode(int image) const;

 private:
  enum class Kind { kFiles, kUint8, kFp32 };

  InferImages() = default;
  static absl::StatusOr<InferImages> ParseFiles(const inference::ModelInferRequest& request,
                                                const InferenceLimits& limits);
  static absl::StatusOr<InferImages> ParsePixels(const inference::ModelInferRequest& request,
                                                 const InferenceLimits& limits);
  // Elements first, first + 1, ... of the tensor as values of 0 to 255.
  [[nodiscard]] absl::Status Values(std::size_t first, std::span<std::uint8_t> out) const;

  Kind kind_ = Kind::kFiles;
  int count_ = 0;
  bool raw_ = false;
  std::int64_t max_pixels_ = 0;
  std::vector<std::string_view> files_;  // [count], of kFiles
  // Of pixels: one of the three holds the values.
  int height_ = 0, width_ = 0, channels_ = 0;
  bool channels_first_ = false;
  std::string_view bytes_;
  const inference::InferTensorContents* contents_ = nullptr;
};

}  // namespace ckn
