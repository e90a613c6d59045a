#include "server/simd/filter_bank.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "server/simd/winograd.h"

// Highway compiles the lines between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/simd/filter_bank.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
// Highway's form: the inner name is a macro.
// NOLINTNEXTLINE(modernize-concat-nested-namespaces)
namespace ckn {
namespace HWY_NAMESPACE {

std::size_t Lanes() { return hwy::HWY_NAMESPACE::Lanes(hwy::HWY_NAMESPACE::ScalableTag<float>()); }

// Vectors of a block, for products of this many elements. The more there are, the fewer loads a product takes, as long
// as the block's filters fit the first-level cache.
int MaxVectors(std::size_t dim) { return HWY_TARGET <= HWY_AVX3 && dim <= 128 ? 4 : 3; }

}  // namespace HWY_NAMESPACE
}  // namespace ckn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ckn {
namespace {

HWY_EXPORT(Lanes);
HWY_EXPORT(MaxVectors);

// 2 to this is 0: the filters that fill up the last vector.
constexpr float kLog2Zero = -1e30F;

}  // namespace

FilterBank::FilterBank(const Filters& filters)
    : FilterBank(filters, static_cast<std::size_t>(filters.weights.cols())) {}

FilterBank::FilterBank(const Filters& filters, std::size_t product_dim) {
  const auto lanes = static_cast<int>(HWY_DYNAMIC_DISPATCH(Lanes)());
  const auto p = static_cast<int>(filters.weights.rows());
  const auto dim = static_cast<std::size_t>(filters.weights.cols());
  // Blocks of about equal width: 4 vectors are 2 + 2, not 3 + 1.
  const int vectors = (p + lanes - 1) / lanes;
  const int max_vectors = HWY_DYNAMIC_DISPATCH(MaxVectors)(product_dim);
  // An even number of them, if there are several, for two threads that share a lone image.
  const int least = (vectors + max_vectors - 1) / max_vectors;
  const int count = least == 1 ? 1 : least + least % 2;
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) {
    const int begin = vectors * i / count;
    const int end = vectors * (i + 1) / count;
    Block block;
    block.first = begin * lanes;
    block.vectors = end - begin;
    block.count = std::min(p, end * lanes) - block.first;
    const auto width = static_cast<std::size_t>(block.vectors) * static_cast<std::size_t>(lanes);
    block.weights_at = size;
    block.bias_at = size + dim * width;
    block.limit_at = block.bias_at + width;
    size = block.limit_at + width;
    blocks_.push_back(block);
  }
  data_.Reserve(size);
  float* const data = data_.data();
  for (const Block& block : blocks_) {
    const auto width = static_cast<std::size_t>(block.vectors) * static_cast<std::size_t>(lanes);
    for (std::size_t l = 0; l < width; ++l) {
      const bool padding = std::cmp_greater_equal(l, block.count);
      const Eigen::Index filter = block.first + static_cast<Eigen::Index>(l);
      data[block.bias_at + l] = padding ? kLog2Zero : filters.bias[filter];
      data[block.limit_at + l] = padding ? 0 : filters.limit[filter];
      for (std::size_t k = 0; k < dim; ++k) {
        data[block.weights_at + k * width + l] = padding ? 0 : filters.weights(filter, static_cast<Eigen::Index>(k));
      }
    }
  }
}

FilterBank FilterBank::OfTiles(const Filters& filters, int patch_size) {
  const Eigen::Index p = filters.weights.rows();
  const Eigen::Index channels = filters.weights.cols() / (Eigen::Index{patch_size} * patch_size);
  Filters transformed{RowMatrixF(p, kTilePositions * channels), filters.bias, filters.limit};
  for (Eigen::Index l = 0; l < p; ++l) {
    for (Eigen::Index c = 0; c < channels; ++c) {
      const std::array<float, kTilePositions> positions = TransformFilter(&filters.weights(l, c), channels, patch_size);
      for (Eigen::Index i = 0; i < kTilePositions; ++i) {
        transformed.weights(l, i * channels + c) = positions[static_cast<std::size_t>(i)];
      }
    }
  }
  return {transformed, static_cast<std::size_t>(channels)};
}

FilterBank FilterBank::OfPairs(const Filters& filters, int run, int pairs_per_run) {
  const Eigen::Index p = filters.weights.rows();
  const Eigen::Index runs = filters.weights.cols() / run;
  Filters pairs{RowMatrixF::Zero(p, runs * pairs_per_run), filters.bias, filters.limit};
  for (Eigen::Index l = 0; l < p; ++l) {
    for (Eigen::Index k = 0; k < filters.weights.cols(); ++k) {
      float& pair = pairs.weights(l, k / run * pairs_per_run + k % run / 2);
      const std::uint32_t half = std::bit_cast<std::uint32_t>(filters.weights(l, k)) >> 16;
      // The first one in memory is the lower half.
      pair = std::bit_cast<float>(std::bit_cast<std::uint32_t>(pair) | (k % run % 2 == 0 ? half : half << 16));
    }
  }
  return {pairs, static_cast<std::size_t>(pairs.weights.cols())};
}

}  // namespace ckn
#endif  // HWY_ONCE
