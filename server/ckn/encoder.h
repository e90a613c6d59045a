#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/feature_map.h"
#include "server/ckn/layer.h"
#include "server/ckn/precision.h"

namespace ckn {

class Helpers;
struct PackedLayer;
struct PatchRows;

// Algorithm 2, layer after layer, in single precision or with products of less: xi_0 -> the last map as a vector.
// Immutable after Create; Encode may be called from any number of threads.
class Encoder {
 public:
  // Fails when a layer is malformed or does not fit the map below it; the message names the layer.
  static absl::StatusOr<Encoder> Create(std::vector<Layer> layers, const MapShape& input,
                                        Precision precision = Precision::kFloat32);

  [[nodiscard]] const MapShape& input_shape() const { return shapes_.front(); }
  [[nodiscard]] const MapShape& output_shape() const { return shapes_.back(); }
  // Shape of xi_k; k = 0 is the input.
  [[nodiscard]] const std::vector<MapShape>& shapes() const { return shapes_; }
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }
  // Length of the feature vector: height * width * channels of the last map.
  [[nodiscard]] int feature_count() const;
  // About what an image costs: additions and multiplications of the products, and exponentials for what they cost.
  [[nodiscard]] double operations() const;

  // Whether Encode can tell how well the filters describe an image: not behind a projection, which is only applied to
  // pooled activations.
  [[nodiscard]] bool has_residual() const { return layers_.back().projection.size() == 0; }

  // xi_0 -> xi_N, flattened [height][width][channels] into out (feature_count() floats).
  // The input's shape must be input_shape(). The result does not depend on the thread or on earlier calls.
  // A network with a large layer is shared with the Helpers of this thread, if it has any: layer after layer, block by
  // block of the filters. The result is the same to the last bit.
  //
  // The residual, if asked for, is 1 - sum ||zeta||^2 / sum ||psi||^2 over the patches psi of the last layer and their
  // activations zeta: since ||zeta||^2 approximates K(psi, psi) = ||psi||^2 (eq. (3)), it is the part of the image that
  // the learned filters do not describe. About 0 for images like those that the filters were learned on, 1 for patches
  // that none of the filters is near, and for an image without any. Only if has_residual().
  void Encode(const FeatureMap& input, std::span<float> out, float* residual = nullptr) const;

  // xi_0 -> xi_N as a map.
  [[nodiscard]] FeatureMap EncodeMap(const FeatureMap& input) const;

 private:
  Encoder() = default;
  struct Energy;
  void CopyPatches(std::size_t k, const FeatureMap& map, const PatchRows& rows, Helpers* helpers) const;
  void Prepare(std::size_t k, const FeatureMap& map, Helpers* helpers, PatchRows& rows) const;
  void EncodeLayer(std::size_t k, const FeatureMap& map, FeatureMap& out, Energy* energy) const;

  Precision precision_ = Precision::kFloat32;
  std::vector<Layer> layers_;
  std::vector<MapShape> shapes_;
  std::vector<std::shared_ptr<const PackedLayer>> packed_;
  std::size_t most_helpers_ = 0;  // 0: no layer is large enough to share the network
};

}  // namespace ckn
