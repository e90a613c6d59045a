#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/ckn/encoder.h"
#include "server/ckn/layer.h"
#include "server/image/image.h"
#include "server/image/preprocess.h"

namespace ckn {

// Image -> xi_0 -> last map, for one network or several side by side. Immutable; safe to share between threads.
class FeatureExtractor {
 public:
  explicit FeatureExtractor(Precision precision = Precision::kFloat32) : precision_(precision) {}

  // The next network's features come behind those of the ones before. Fails like Encoder::Create.
  absl::Status Add(const InputSpec& input, std::vector<Layer> layers);

  [[nodiscard]] int feature_count() const { return feature_count_; }
  [[nodiscard]] Precision precision() const { return precision_; }
  [[nodiscard]] int network_count() const { return static_cast<int>(networks_.size()); }
  // Of all networks, see Encoder::operations().
  [[nodiscard]] double operations() const;
  // Features of each network.
  [[nodiscard]] std::vector<int> feature_counts() const;

  // The last maps, flattened [height][width][channels], one behind the other, not standardised, into out
  // (feature_count() floats); of a network with `mirror`, the mean of the image's map and the mirror image's.
  // INVALID_ARGUMENT: the image does not fit.
  // The residual, if asked for, is the mean of the networks' (Encoder::Encode). Only if has_residual().
  absl::Status Extract(const ImageU8& image, std::span<float> out, float* residual = nullptr) const;
  // The same with the residual of each network, [network_count()], or none.
  absl::Status Extract(const ImageU8& image, std::span<float> out, std::span<float> residuals) const;
  // The mean of an image's residuals by networks that were asked one by one: the same number as Extract's for all.
  static float MeanResidual(std::span<const float> residuals);
  // Whether all networks have one.
  [[nodiscard]] bool has_residual() const;

 private:
  struct Network {
    InputSpec input;
    Encoder encoder;
  };
  std::vector<Network> networks_;
  Precision precision_;
  int feature_count_ = 0;
};

}  // namespace ckn
