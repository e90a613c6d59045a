#include "server/ckn/encoder.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/ckn/patch.h"
#include "server/simd/exp.h"
#include "server/simd/gemm.h"

namespace ckn {

// What a layer needs at run time, computed once. With u = w . psi and rho = ||psi||, eq. (zeta) is
//   rho * sqrt(eta) * exp(-||psi / rho - w||^2 / sigma^2) = rho * exp((2 / (sigma^2 rho)) u + bias),
//   bias = -(1 + ||w||^2) / sigma^2 + ln(eta) / 2,
// so an activation costs one product and one exponential.
struct Encoder::PackedLayer {
  Eigen::VectorXf bias;        // [p]
  std::vector<float> pooling;  // [2 * radius + 1]
  float inverse_sigma_squared = 0;
};

namespace {

// Rows of patches go through the product in groups of about this many, so that the tile stays in the L2 cache.
constexpr int kPatchesPerTile = 256;
// exp() of this is 0 on every instruction set; stands for ln(0) of a filter with eta = 0.
constexpr float kLogZero = -1e30F;
// Below this many inputs a plain loop beats a call of the matrix product.
constexpr int kSmallPatchDim = 4;

// out [rows][p] = patches [rows][dim] * filters^T.
void Project(const RowMatrixF& filters, const float* patches, int rows, float* out) {
  const auto p = filters.rows();
  const auto dim = filters.cols();
  if (dim > kSmallPatchDim) {
    Gemm(Op::kNone, Op::kTranspose, rows, p, dim, 1, patches, dim, filters.data(), dim, 0, out, p);
    return;
  }
  for (int row = 0; row < rows; ++row) {
    for (Eigen::Index filter = 0; filter < p; ++filter) {
      float sum = 0;
      for (Eigen::Index i = 0; i < dim; ++i) sum += patches[row * dim + i] * filters(filter, i);
      out[row * p + filter] = sum;
    }
  }
}

// The activations of a patch whose norm is below the floor epsilon; psi / epsilon is no unit vector then. In: w . psi.
// The norm's part of the exponent must not be taken out as a factor: it overflows where sigma is small.
void ActivateFaintPatch(const Layer& layer, const Eigen::VectorXf& bias, float inverse_sigma_squared, float norm,
                        float* activation) {
  const float unit = norm / layer.epsilon;
  for (Eigen::Index l = 0; l < bias.size(); ++l) {
    const float exponent = inverse_sigma_squared * (2 * activation[l] / layer.epsilon + 1 - unit * unit) + bias[l];
    activation[l] = norm * std::exp(exponent);
  }
}

// rows [count][dim] * whitening, and the norms of the new rows. `scratch` has room for the rows.
void Whiten(const RowMatrixF& whitening, int count, std::vector<float>& rows, std::vector<float>& norms,
            std::vector<float>& scratch) {
  const Eigen::Index dim = whitening.rows();
  rows.swap(scratch);
  Gemm(Op::kNone, Op::kNone, count, dim, dim, 1, scratch.data(), dim, whitening.data(), dim, 0, rows.data(), dim);
  for (int i = 0; i < count; ++i) norms[i] = Norm(rows.data() + i * dim, static_cast<std::size_t>(dim));
}

void AddScaled(float scale, const float* x, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

}  // namespace

absl::StatusOr<Encoder> Encoder::Create(std::vector<Layer> layers, const MapShape& input) {
  if (layers.empty()) return absl::InvalidArgumentError("layers: got none, expected at least one");
  Encoder encoder;
  encoder.shapes_.push_back(input);
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const Layer& layer = layers[k];
    const std::string where = absl::StrCat("layer ", k + 1);
    if (absl::Status status = ValidateLayer(layer); !status.ok()) return Annotate(status, where);
    const absl::StatusOr<MapShape> shape = OutputShape(layer, encoder.shapes_.back());
    if (!shape.ok()) return Annotate(shape.status(), where);
    encoder.shapes_.push_back(*shape);

    auto packed = std::make_shared<PackedLayer>();
    // In double: the terms nearly cancel.
    const double inverse = 1.0 / (static_cast<double>(layer.sigma) * layer.sigma);
    packed->inverse_sigma_squared = static_cast<float>(inverse);
    packed->bias.resize(layer.filter_count());
    for (int l = 0; l < layer.filter_count(); ++l) {
      const double norm_squared = layer.filters.row(l).cast<double>().squaredNorm();
      packed->bias[l] = layer.eta[l] > 0
                            ? static_cast<float>(-(1 + norm_squared) * inverse + 0.5 * std::log(layer.eta[l]))
                            : kLogZero;
    }
    const double beta = layer.subsampling;
    // The constant sqrt(2 / pi) of eq. (xi) is applied once, with the horizontal and the vertical filter half each.
    const double half_constant = std::pow(2 / std::numbers::pi, 0.25);
    for (int d = -layer.pooling_radius; d <= layer.pooling_radius; ++d) {
      packed->pooling.push_back(static_cast<float>(half_constant * std::exp(-(d / beta) * (d / beta))));
    }
    encoder.packed_.push_back(std::move(packed));
  }
  encoder.layers_ = std::move(layers);
  return encoder;
}

int Encoder::feature_count() const {
  const MapShape& last = shapes_.back();
  return last.height * last.width * last.channels;
}

FeatureMap Encoder::EncodeMap(const FeatureMap& input) const {
  assert((MapShape{input.height, input.width, input.channels} == shapes_.front()));
  FeatureMap map = input;
  for (std::size_t k = 0; k < layers_.size(); ++k) {
    const Layer& layer = layers_[k];
    const PackedLayer& packed = *packed_[k];
    const int p = layer.filter_count();
    const int dim = layer.patch_dim();
    const int radius = layer.pooling_radius;
    const int rows = ActivationSize(map.height, layer.patch_size);
    const int cols = ActivationSize(map.width, layer.patch_size);
    FeatureMap pooled(shapes_[k + 1].height, shapes_[k + 1].width, p);

    const int tile_rows = std::clamp(kPatchesPerTile / cols, 1, rows);
    std::vector<float> patches(static_cast<std::size_t>(tile_rows) * cols * dim);
    std::vector<float> scratch(layer.whitening.size() > 0 ? patches.size() : 0);
    std::vector<float> norms(static_cast<std::size_t>(tile_rows) * cols);
    std::vector<float> activations(static_cast<std::size_t>(tile_rows) * cols * p);
    std::vector<float> pooled_row(static_cast<std::size_t>(pooled.width) * p);

    for (int tile = 0; tile < rows; tile += tile_rows) {
      const int tile_end = std::min(tile + tile_rows, rows);
      for (int y = tile, i = 0; y < tile_end; ++y) {
        for (int x = 0; x < cols; ++x, ++i) {
          norms[i] = ExtractPatch(map, y, x, layer.patch_size, layer.subtract_patch_mean,
                                  patches.data() + static_cast<std::size_t>(i) * dim);
        }
      }
      if (layer.whitening.size() > 0) Whiten(layer.whitening, (tile_end - tile) * cols, patches, norms, scratch);
      Project(layer.filters, patches.data(), (tile_end - tile) * cols, activations.data());

      for (int y = tile; y < tile_end; ++y) {
        const std::size_t first = static_cast<std::size_t>(y - tile) * cols;
        for (int x = 0; x < cols; ++x) {
          const float norm = norms[first + x];
          float* const activation = activations.data() + (first + x) * p;
          if (norm >= layer.epsilon) {
            ExpAffine(2 * packed.inverse_sigma_squared / norm, packed.bias.data(), norm, activation, p);
          } else {
            ActivateFaintPatch(layer, packed.bias, packed.inverse_sigma_squared, norm, activation);
          }
        }
        // Gaussian pooling, separable: this row of activations along x, then into each output row it reaches.
        std::fill(pooled_row.begin(), pooled_row.end(), 0.0F);
        for (int j = 0; j < pooled.width; ++j) {
          const int centre = PoolingCentre(j, layer.subsampling);
          for (int x = std::max(0, centre - radius); x <= std::min(cols - 1, centre + radius); ++x) {
            AddScaled(packed.pooling[x - centre + radius], activations.data() + (first + x) * p, p,
                      pooled_row.data() + static_cast<std::size_t>(j) * p);
          }
        }
        for (int i = 0; i < pooled.height; ++i) {
          const int distance = y - PoolingCentre(i, layer.subsampling);
          if (std::abs(distance) > radius) continue;
          AddScaled(packed.pooling[distance + radius], pooled_row.data(), pooled_row.size(), pooled.At(i, 0));
        }
      }
    }
    if (layer.projection.size() == 0) {
      map = std::move(pooled);
      continue;
    }
    // After pooling, since both are linear and pooling leaves fewer places.
    map = FeatureMap(pooled.height, pooled.width, p);
    Gemm(Op::kNone, Op::kNone, static_cast<std::int64_t>(pooled.height) * pooled.width, p, p, 1, pooled.values.data(),
         p, layer.projection.data(), p, 0, map.values.data(), p);
  }
  return map;
}

void Encoder::Encode(const FeatureMap& input, std::span<float> out) const {
  assert(static_cast<int>(out.size()) == feature_count());
  const FeatureMap map = EncodeMap(input);
  std::copy(map.values.begin(), map.values.end(), out.begin());
}

}  // namespace ckn
