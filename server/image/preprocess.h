#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/feature_map.h"
#include "server/image/image.h"

namespace ckn {

enum class ResizePolicy { kReject, kStretch };
enum class InputMap { kPixels, kGradient };

// How an image becomes the map xi_0 of the network; see ckn.v1.InputSpec for the meaning of each field.
struct InputSpec {
  int height = 0;
  int width = 0;
  int channels = 0;  // 1 or 3
  ResizePolicy resize = ResizePolicy::kReject;
  InputMap map = InputMap::kPixels;
  bool mirror = false;

  // Channels of xi_0: `channels` for pixels, 2 for the gradient map.
  [[nodiscard]] int MapChannels() const { return map == InputMap::kGradient ? 2 : channels; }
};

// Stretches to the given size, averaging over areas when it shrinks. INVALID_ARGUMENT for an image that is not one.
absl::StatusOr<ImageU8> Resize(const ImageU8& image, int height, int width);

// Left and right exchanged. INVALID_ARGUMENT for an image that is not one.
absl::Status MirrorLeftRight(const ImageU8& image, ImageU8& out);
absl::StatusOr<ImageU8> MirrorLeftRight(const ImageU8& image);

// Colour conversion, size check or resize, then the input map. The one path from pixels to xi_0: training, evaluation
// and serving all call it. INVALID_ARGUMENT when the size is not the model's and the policy is kReject.
// The first form asks for no memory when `map` had room for such a map and the image needs no resizing.
absl::Status Preprocess(const ImageU8& image, const InputSpec& spec, FeatureMap& map);
absl::StatusOr<FeatureMap> Preprocess(const ImageU8& image, const InputSpec& spec);

}  // namespace ckn
