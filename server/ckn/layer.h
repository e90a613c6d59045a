#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/matrix.h"

namespace ckn {

// Height, width and channels of a feature map.
struct MapShape {
  int height = 0;
  int width = 0;
  int channels = 0;
  friend bool operator==(const MapShape&, const MapShape&) = default;
};

// The parameters of one layer of Algorithm 2.
struct Layer {
  int patch_size = 1;                // m: patches are m x m, all inside the map ("valid")
  int in_channels = 0;               // channels of the map below
  int subsampling = 1;               // gamma; beta = gamma pixels
  int pooling_radius = 1;            // taps exp(-d^2 / gamma^2) for |d| <= pooling_radius
  bool subtract_patch_mean = false;  // per channel, before normalisation
  bool learned = true;               // false: the fixed orientations of a gradient map
  float sigma = 0;
  float epsilon = 1e-5F;  // floor of the patch norm
  // [d][d], d = patch_dim(), symmetric, or empty: each patch, its mean subtracted, is multiplied by it before its norm
  // is taken.
  RowMatrixF whitening;
  RowMatrixF filters;   // W [p][m * m * in_channels]; within a filter y, x, channel, channel fastest
  Eigen::VectorXf eta;  // [p], >= 0
  // [p][p], symmetric, or empty: xi at each place is multiplied by it after pooling. For the Nystrom approximation of
  // the kernel it is the inverse square root of the filters' own kernel matrix.
  RowMatrixF projection;

  [[nodiscard]] int filter_count() const { return static_cast<int>(filters.rows()); }
  [[nodiscard]] int patch_dim() const { return patch_size * patch_size * in_channels; }
};

// Geometry (design: valid patches, pooled size ceil(n / gamma), centres floor((gamma - 1) / 2) + i * gamma).
constexpr int ActivationSize(int in_size, int patch_size) { return in_size - patch_size + 1; }
constexpr int PooledSize(int activation_size, int subsampling) {
  return (activation_size + subsampling - 1) / subsampling;
}
constexpr int PoolingCentre(int index, int subsampling) { return (subsampling - 1) / 2 + index * subsampling; }

// Shape of xi_k for an input map of shape `in`. INVALID_ARGUMENT when the layer does not fit: wrong channel count, or
// a patch larger than the map.
absl::StatusOr<MapShape> OutputShape(const Layer& layer, const MapShape& in);

// Numbers of a model are within this magnitude, scales also above its inverse. No trained one comes near; single
// precision keeps products of such numbers finite.
inline constexpr float kMaxParameter = 1e9F;
// Patches have norm 1, and exp(-d^2 / sigma^2) is computed from terms of size 1 / sigma^2: below this sigma their
// rounding would be all that is left.
inline constexpr float kMinSigma = 1e-3F;

// Fails unless sizes agree with each other and all numbers are in range; names the field, what it found and what it
// expected.
absl::Status ValidateLayer(const Layer& layer);

// Table 3's "# param": entries of W over the learned layers.
std::int64_t ParameterCount(const std::vector<Layer>& layers);

}  // namespace ckn
