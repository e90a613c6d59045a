#include "server/simd/winograd.h"

#include <algorithm>

// Highway compiles the lines between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/simd/winograd.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
// Highway's form: the inner name is a macro.
// NOLINTNEXTLINE(modernize-concat-nested-namespaces)
namespace ckn {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// B^T of four vectors, in place.
template <typename Vec>
HWY_INLINE void TransformFour(Vec& x0, Vec& x1, Vec& x2, Vec& x3) {
  x0 = hn::Sub(x0, x2);
  x3 = hn::Sub(x1, x3);
  const Vec sum = hn::Add(x1, x2);
  x2 = hn::Sub(x2, x1);
  x1 = sum;
}

// As many channels of a tile as the tag has lanes. from [4][4], `row` and `column` floats apart.
template <typename D>
HWY_INLINE void TransformChannels(D d, const float* HWY_RESTRICT from, std::size_t row, std::size_t column,
                                  float* HWY_RESTRICT to, std::size_t position_stride) {
  hn::Vec<D> x[kTileSize][kTileSize];
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < kTileSize; ++i) {
    HWY_UNROLL(4)
    for (std::size_t j = 0; j < kTileSize; ++j) x[i][j] = hn::LoadU(d, from + i * row + j * column);
    TransformFour(x[i][0], x[i][1], x[i][2], x[i][3]);
  }
  HWY_UNROLL(4)
  for (std::size_t j = 0; j < kTileSize; ++j) {
    TransformFour(x[0][j], x[1][j], x[2][j], x[3][j]);
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < kTileSize; ++i) hn::StoreU(x[i][j], d, to + (i * kTileSize + j) * position_stride);
  }
}

void TransformTile(const float* HWY_RESTRICT from, std::size_t row, std::size_t channels, float* HWY_RESTRICT to,
                   std::size_t position_stride) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> quarter;
  const hn::CappedTag<float, 1> one;
  std::size_t c = 0;
  for (; c + hn::Lanes(d) <= channels; c += hn::Lanes(d)) {
    TransformChannels(d, from + c, row, channels, to + c, position_stride);
  }
  for (; c + hn::Lanes(quarter) <= channels; c += hn::Lanes(quarter)) {
    TransformChannels(quarter, from + c, row, channels, to + c, position_stride);
  }
  for (; c < channels; ++c) TransformChannels(one, from + c, row, channels, to + c, position_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace ckn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ckn {
namespace {

HWY_EXPORT(TransformTile);

// Of the row `i` of G, for patches of this size.
double FilterFactor(int i, int k, int patch_size) {
  if (i == 0) return k == 0 ? 1 : 0;
  if (i == kTileSize - 1) return k == patch_size - 1 ? 1 : 0;
  return i == 2 && k % 2 == 1 ? -0.5 : 0.5;
}

}  // namespace

std::array<float, kTilePositions> TransformFilter(const float* filter, std::ptrdiff_t stride, int patch_size) {
  std::array<float, kTilePositions> transformed{};
  for (int i = 0; i < kTileSize; ++i) {
    for (int j = 0; j < kTileSize; ++j) {
      double sum = 0;
      for (int y = 0; y < patch_size; ++y) {
        for (int x = 0; x < patch_size; ++x) {
          const std::ptrdiff_t element = std::ptrdiff_t{y} * patch_size + x;
          sum += FilterFactor(i, y, patch_size) * FilterFactor(j, x, patch_size) * filter[element * stride];
        }
      }
      transformed[static_cast<std::size_t>(i) * kTileSize + static_cast<std::size_t>(j)] = static_cast<float>(sum);
    }
  }
  return transformed;
}

TileGrid::TileGrid(int side, int patch_rows, int patch_columns, int map_channels)
    : outputs(side),
      rows((patch_rows + side - 1) / side),
      columns((patch_columns + side - 1) / side),
      channels(map_channels) {
  // A cache line more, and no power of two: what is written to all positions at once must not share sets of the cache.
  constexpr std::size_t kLine = 16;
  const std::size_t floats = static_cast<std::size_t>(rows) * columns * channels;
  position_stride = (floats + kLine - 1) / kLine * kLine + kLine;
}

void TransformTiles(const FeatureMap& map, int first_row, const TileGrid& grid, int row, AlignedFloats& scratch,
                    float* out) {
  const auto channels = static_cast<std::size_t>(grid.channels);
  const std::size_t scratch_row = kTileSize * channels;
  scratch.Reserve(kTileSize * scratch_row);
  const int y = (first_row + row) * grid.outputs;
  out += static_cast<std::size_t>(row) * static_cast<std::size_t>(grid.columns) * channels;
  for (int column = 0; column < grid.columns; ++column) {
    const int x = column * grid.outputs;
    const float* from = map.At(y, x);
    std::size_t from_row = static_cast<std::size_t>(map.width) * channels;
    if (y + kTileSize > map.height || x + kTileSize > map.width) {
      std::fill_n(scratch.data(), kTileSize * scratch_row, 0.0F);
      const int inside = std::min(kTileSize, map.width - x);
      for (int i = 0; i < std::min(kTileSize, map.height - y); ++i) {
        std::copy_n(map.At(y + i, x), static_cast<std::size_t>(inside) * channels,
                    scratch.data() + static_cast<std::size_t>(i) * scratch_row);
      }
      from = scratch.data();
      from_row = scratch_row;
    }
    HWY_DYNAMIC_DISPATCH(TransformTile)(from, from_row, channels, out, grid.position_stride);
    out += channels;
  }
}

}  // namespace ckn
#endif  // HWY_ONCE
