#include "server/simd/activate_and_pool.h"

#include <algorithm>
#include <utility>

// Highway compiles the lines between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/simd/activate_and_pool.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
// Highway's form: the inner name is a macro.
// NOLINTNEXTLINE(modernize-concat-nested-namespaces)
namespace ckn {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// Accumulators of a tile, patches times vectors: all registers but those for the filters and a patch element.
#if HWY_TARGET <= HWY_AVX3
constexpr int kAccumulators = 24;
#else
constexpr int kAccumulators = 12;
#endif
// Whether the exponential waits until a row's sums are in memory: with few registers the accumulators leave none for
// its constants.
constexpr bool kSumsFirst = HWY_TARGET > HWY_AVX3;
constexpr int kMaxPatches = 12;  // as far as the loops below unroll, and up to 4 vectors

// Of the exponential below, from f^0 on.
constexpr float kExp2[] = {0x1.000002p+0F, 0x1.62e428p-1F, 0x1.ebf918p-3F,
                           0x1.c6b6e4p-5F, 0x1.3d0c52p-7F, 0x1.5c08e6p-10F};

// Tiles whose products are in memory at a time.
constexpr int kMostTiles = 32;

// Floats from the products of one position of `tiles` tiles to those of the next: positions must not share sets of the
// first-level cache.
std::size_t ProductStride(int tiles, std::size_t width) { return static_cast<std::size_t>(tiles) * width + 16; }

std::size_t Width(const FilterBank::Block& block) { return static_cast<std::size_t>(block.vectors) * hn::Lanes(Tag()); }

// A row of activations, or those that a row of tiles has and the products before them.
std::size_t WorkFloats(const FilterBank::Block& block, const PatchRows& rows) {
  const std::size_t width = Width(block);
  const auto columns = static_cast<std::size_t>(rows.columns);
  if (rows.grid.outputs == 0) return (columns + kTilePatches - 1) / kTilePatches * kTilePatches * width;
  const auto side = static_cast<std::size_t>(rows.grid.outputs);
  const int tiles = std::min(kMostTiles, rows.grid.rows * rows.grid.columns);
  return side * side * static_cast<std::size_t>(rows.grid.columns) * width +
         kTilePositions * ProductStride(tiles, width);
}

// 2^min(t, limit), 0 for t below -126; limit is at most 127. Relative error at most 3e-7.
HWY_INLINE Vec Exp2(Tag d, Vec t, Vec limit) {
  const hn::RebindToSigned<Tag> integers;
  // Added and taken away again, it leaves the nearest integer; with it, that integer is in the low bits.
  const Vec round = hn::Set(d, 0x1.8p23F);
  const Vec bounded = hn::Min(t, limit);
  const Vec shifted = hn::Add(bounded, round);
  const Vec f = hn::Sub(bounded, hn::Sub(shifted, round));
  // Minimax polynomial of 2^f for f in [-1/2, 1/2], relative error 7e-8.
  Vec value = hn::Set(d, kExp2[5]);
  HWY_UNROLL(5)
  for (int i = 4; i >= 0; --i) value = hn::MulAdd(value, f, hn::Set(d, kExp2[i]));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(integers, shifted));
  const Vec scaled = hn::BitCast(d, hn::Add(hn::BitCast(integers, value), exponent));
  return hn::IfThenElseZero(hn::Ge(t, hn::Set(d, -126.0F)), scaled);
}

// A patch's part of an activation: norm * 2^min(slope * sum + offset + bias, limit).
struct Folded {
  Folded(Tag d, const PatchRows& rows, std::size_t at)
      : slope(hn::Set(d, rows.slope[at])), offset(hn::Set(d, rows.offset[at])), norm(hn::Set(d, rows.norm[at])) {}
  // bias and limit of a vector of filters
  [[nodiscard]] HWY_INLINE Vec Activation(Tag d, Vec sum, const float* HWY_RESTRICT bias,
                                          const float* HWY_RESTRICT limit) const {
    const Vec exponent = hn::MulAdd(slope, sum, hn::Add(offset, hn::Load(d, bias)));
    return hn::Mul(norm, Exp2(d, exponent, hn::Load(d, limit)));
  }
  Vec slope, offset, norm;
};

// The filters of a block.
struct BlockView {
  const float *weights, *bias, *limit;
};

// Neighbours whose products with filters are summed: element k of the i-th lies at first + i * stride + elements[k].
struct Factors {
  const float* first;
  std::size_t stride;
  std::span<const std::size_t> elements;
};

// out[i][v]: the sums w . psi_i, or the activations of the patches from `at` on, for `kPatches` neighbouring patches
// and `kVectors` vectors of filters. Not inlined: the constants of the exponential would take registers of the
// products.
template <int kPatches, int kVectors, bool kActivated>
HWY_NOINLINE void Product(const PatchRows& rows, const Factors& factors, [[maybe_unused]] std::size_t at,
                          const BlockView& block, float* HWY_RESTRICT out) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t stride = factors.stride;
  Vec sum[kPatches][kVectors];
  for (auto& patch_sums : sum) {
    for (Vec& value : patch_sums) value = hn::Zero(d);
  }
  const float* HWY_RESTRICT weights = block.weights;
  const std::size_t* HWY_RESTRICT elements = factors.elements.data();
  const std::size_t dim = factors.elements.size();
  for (std::size_t k = 0; k < dim; ++k) {
    const float* HWY_RESTRICT element = factors.first + elements[k];
    Vec w[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) w[v] = hn::Load(d, weights + static_cast<std::size_t>(v) * lanes);
    HWY_UNROLL(12)
    for (int i = 0; i < kPatches; ++i) {
      const Vec x = hn::Set(d, element[static_cast<std::size_t>(i) * stride]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(x, w[v], sum[i][v]);
    }
    weights += kVectors * lanes;
  }
  HWY_UNROLL(12)
  for (int i = 0; i < kPatches; ++i) {
    float* const to = out + static_cast<std::size_t>(i) * kVectors * lanes;
    if constexpr (kActivated) {
      const Folded folded(d, rows, at + static_cast<std::size_t>(i));
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        const std::size_t l = static_cast<std::size_t>(v) * lanes;
        hn::Store(folded.Activation(d, sum[i][v], block.bias + l, block.limit + l), d, to + l);
      }
    } else {
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) hn::Store(sum[i][v], d, to + static_cast<std::size_t>(v) * lanes);
    }
  }
}

// The sums of `count` patches from `at` on become their activations.
template <int kVectors>
HWY_NOINLINE void ActivateSums(const PatchRows& rows, std::size_t at, std::size_t count, const BlockView& block,
                               float* HWY_RESTRICT sums) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < count; ++i) {
    const Folded folded(d, rows, at + i);
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const std::size_t l = static_cast<std::size_t>(v) * lanes;
      hn::Store(folded.Activation(d, hn::Load(d, sums + l), block.bias + l, block.limit + l), d, sums + l);
    }
    sums += kVectors * lanes;
  }
}

// Of `count` patches, at most kPatches.
template <int kPatches, int kVectors, bool kActivated>
HWY_INLINE void ProductOf(int count, const PatchRows& rows, const Factors& factors, std::size_t at,
                          const BlockView& block, float* out) {
  if constexpr (kPatches > 1) {
    if (count < kPatches) {
      return ProductOf<kPatches - 1, kVectors, kActivated>(count, rows, factors, at, block, out);
    }
  }
  Product<kPatches, kVectors, kActivated>(rows, factors, at, block, out);
}

// out [count][kVectors * lanes], a few neighbours at a time, of equal numbers as far as that goes. `at`: place of the
// first patch in `rows`.
template <int kVectors, bool kActivated>
void Products(const PatchRows& rows, const Factors& factors, int count, std::size_t at, const BlockView& block,
              float* out) {
  constexpr int kMost = std::min(kAccumulators / kVectors, kMaxPatches);
  const std::size_t lanes = hn::Lanes(Tag());
  const int parts = (count + kMost - 1) / kMost;
  for (int part = 0; part < parts; ++part) {
    const auto begin = static_cast<std::size_t>(count * part / parts);
    const auto end = static_cast<std::size_t>(count * (part + 1) / parts);
    const Factors some{factors.first + begin * factors.stride, factors.stride, factors.elements};
    ProductOf<kMost, kVectors, kActivated>(static_cast<int>(end - begin), rows, some, at + begin, block,
                                           out + begin * kVectors * lanes);
  }
}

// The row's activations [columns][kVectors * lanes].
template <int kVectors>
void ActivateRow(const PatchRows& rows, int row, const BlockView& block, float* out) {
  const std::size_t first = static_cast<std::size_t>(row) * static_cast<std::size_t>(rows.columns);
  if (rows.bfloat16 != nullptr) {
    const auto columns = static_cast<std::size_t>(rows.columns);
    const Bfloat16Patches patches{rows.bfloat16 + static_cast<std::size_t>(row) * rows.row_stride, rows.patch_stride,
                                  rows.elements, columns};
    (rows.unit == Bfloat16Unit::kAmx ? SumPairsAmx : SumPairs)(patches, block.weights, kVectors, out);
    return ActivateSums<kVectors>(rows, first, columns, block, out);
  }
  const Factors patches{rows.patches + static_cast<std::size_t>(row) * rows.row_stride, rows.patch_stride,
                        rows.elements};
  Products<kVectors, !kSumsFirst>(rows, patches, rows.columns, first, block, out);
  if constexpr (kSumsFirst) ActivateSums<kVectors>(rows, first, static_cast<std::size_t>(rows.columns), block, out);
}

// A^T of winograd.h of four vectors.
template <int kOutputs>
HWY_INLINE void TransformProducts(Vec x0, Vec x1, Vec x2, Vec x3, Vec (&out)[kOutputs]) {
  const Vec sum = hn::Add(x1, x2), difference = hn::Sub(x1, x2);
  out[0] = hn::Add(x0, sum);
  out[1] = kOutputs == 2 ? hn::Sub(difference, x3) : difference;
  if constexpr (kOutputs == 3) out[2] = hn::Sub(sum, x3);
}

// From the products of `count` neighbouring tiles, [kTilePositions][tiles][kVectors * lanes], `position_stride` floats
// from one position to the next, to the sums of their patches: kOutputs rows, `row_size` floats from one to the next.
template <int kOutputs, int kVectors>
HWY_NOINLINE void SumsOfTiles(const float* HWY_RESTRICT products, std::size_t position_stride, std::size_t count,
                              float* HWY_RESTRICT sums, std::size_t row_size) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kSize = kTileSize;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      Vec across[kSize][kOutputs];
      HWY_UNROLL(4)
      for (std::size_t y = 0; y < kSize; ++y) {
        const float* const from = products + y * kSize * position_stride;
        TransformProducts<kOutputs>(hn::Load(d, from), hn::Load(d, from + position_stride),
                                    hn::Load(d, from + 2 * position_stride), hn::Load(d, from + 3 * position_stride),
                                    across[y]);
      }
      HWY_UNROLL(3)
      for (std::size_t x = 0; x < kOutputs; ++x) {
        Vec down[kOutputs];
        TransformProducts<kOutputs>(across[0][x], across[1][x], across[2][x], across[3][x], down);
        HWY_UNROLL(3)
        for (std::size_t y = 0; y < kOutputs; ++y) {
          hn::Store(down[y], d, sums + y * row_size + (x * kVectors + v) * lanes);
        }
      }
      products += lanes;
    }
    sums += kOutputs * kVectors * lanes;
  }
}

// Along x into registers, from there into each output row that the activation row reaches. pooled begins with output
// row `origin`.
template <int kVectors>
void PoolRow(const float* activations, int columns, int y, const PoolingAxis& vertical, const PoolingAxis& horizontal,
             int origin, float* pooled) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t width = kVectors * lanes;
  const auto [first, last] = vertical.Reached(y, y);
  if (first > last) return;
  const std::size_t output_row = static_cast<std::size_t>(horizontal.size) * width;
  const int first_centre = (vertical.subsampling - 1) / 2 + first * vertical.subsampling;
  float* first_output = pooled + static_cast<std::size_t>(first - origin) * output_row;
  const int reached = last - first + 1;
  int centre = (horizontal.subsampling - 1) / 2;
  for (int j = 0; j < horizontal.size; ++j) {
    const int begin = std::max(0, centre - horizontal.radius);
    const int end = std::min(columns - 1, centre + horizontal.radius);
    Vec sum[kVectors];
    for (Vec& value : sum) value = hn::Zero(d);
    const float* HWY_RESTRICT from = activations + static_cast<std::size_t>(begin) * width;
    const float* HWY_RESTRICT taps = horizontal.taps + (begin - centre + horizontal.radius);
    for (int x = begin; x <= end; ++x) {
      const Vec tap = hn::Set(d, *taps++);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = hn::MulAdd(tap, hn::Load(d, from + static_cast<std::size_t>(v) * lanes), sum[v]);
      }
      from += width;
    }
    int tap_at = y - first_centre + vertical.radius;
    float* HWY_RESTRICT to = first_output;
    for (int i = 0; i < reached; ++i) {
      const Vec tap = hn::Set(d, vertical.taps[tap_at]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        float* const place = to + static_cast<std::size_t>(v) * lanes;
        hn::Store(hn::MulAdd(tap, sum[v], hn::Load(d, place)), d, place);
      }
      tap_at -= vertical.subsampling;
      to += output_row;
    }
    first_output += width;
    centre += horizontal.subsampling;
  }
}

// The sum of the squares of `count` activations, a multiple of the lanes.
float Energy(const float* activations, std::size_t count) {
  const Tag d;
  Vec sum = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const Vec value = hn::Load(d, activations + i);
    sum = hn::MulAdd(value, value, sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// How a block's pooled map [output rows from `origin` on][output columns][kVectors * lanes] comes together.
struct Pool {
  const PoolingAxis &vertical, &horizontal;
  int origin;
  float* pooled;
  double* energy;  // or nullptr

  template <int kVectors>
  void Add(const float* activations, int columns, int y) const {
    const std::size_t size = static_cast<std::size_t>(columns) * kVectors * hn::Lanes(Tag());
    if (energy != nullptr) *energy += static_cast<double>(Energy(activations, size));
    PoolRow<kVectors>(activations, columns, y, vertical, horizontal, origin, pooled);
  }
};

template <int kVectors>
void RunPatches(const PatchRows& rows, const BlockView& block, const Pool& pool, float* activations) {
  for (int row = 0; row < rows.rows; ++row) {
    ActivateRow<kVectors>(rows, row, block, activations);
    pool.Add<kVectors>(activations, rows.columns, rows.first_row + row);
  }
}

// Rows of tiles, as many at a time as kMostTiles holds, and wide rows in parts.
template <int kOutputs, int kVectors>
void RunTiles(const PatchRows& rows, const BlockView& block, const Pool& pool, float* work) {
  const TileGrid& grid = rows.grid;
  const std::size_t width = kVectors * hn::Lanes(Tag());
  const std::size_t row_size = static_cast<std::size_t>(grid.columns) * kOutputs * width;
  float* const products = work + kOutputs * row_size;
  const auto channels = static_cast<std::size_t>(grid.channels);
  const int rows_at_a_time = std::max(1, kMostTiles / grid.columns);
  for (int first = 0; first < grid.rows; first += rows_at_a_time) {
    const int chunk_rows = std::min(rows_at_a_time, grid.rows - first);
    for (int x = 0; x < grid.columns; x += kMostTiles) {
      const int chunk_columns = std::min(kMostTiles, grid.columns - x);
      const int count = chunk_rows * chunk_columns;  // one or the other is whole
      const std::size_t stride = ProductStride(count, width);
      BlockView position = block;
      for (std::size_t i = 0; i < kTilePositions; ++i) {
        const std::size_t tile = static_cast<std::size_t>(first) * grid.columns + x;
        const Factors tiles{rows.tiles + i * grid.position_stride + tile * channels, channels, rows.elements};
        Products<kVectors, false>(rows, tiles, count, 0, position, products + i * stride);
        position.weights += channels * width;
      }
      for (int i = 0; i < chunk_rows; ++i) {
        SumsOfTiles<kOutputs, kVectors>(products + static_cast<std::size_t>(i) * chunk_columns * width, stride,
                                        static_cast<std::size_t>(chunk_columns),
                                        work + static_cast<std::size_t>(x) * kOutputs * width, row_size);
        if (x + chunk_columns < grid.columns) continue;
        const int row = (first + i) * kOutputs;
        for (int y = row; y < std::min(row + kOutputs, rows.rows); ++y) {
          float* const sums = work + static_cast<std::size_t>(y - row) * row_size;
          const auto columns = static_cast<std::size_t>(rows.columns);
          ActivateSums<kVectors>(rows, static_cast<std::size_t>(y) * columns, columns, block, sums);
          pool.Add<kVectors>(sums, rows.columns, rows.first_row + y);
        }
      }
    }
  }
}

// Adds the first `count` numbers of each row of from [outputs][width] to those of to [outputs][p].
void AddBlock(const float* HWY_RESTRICT from, std::size_t width, std::size_t outputs, std::size_t count, std::size_t p,
              float* HWY_RESTRICT to) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < outputs; ++i) {
    std::size_t l = 0;
    for (; l + lanes <= count; l += lanes) hn::StoreU(hn::Add(hn::LoadU(d, to + l), hn::Load(d, from + l)), d, to + l);
    for (; l < count; ++l) to[l] += from[l];
    from += width;
    to += p;
  }
}

template <int kVectors>
void RunBlock(const PatchRows& rows, const BlockView& block, const Pool& pool, float* work) {
  if (rows.grid.outputs == 0) return RunPatches<kVectors>(rows, block, pool, work);
  if (rows.grid.outputs == 2) return RunTiles<2, kVectors>(rows, block, pool, work);
  RunTiles<3, kVectors>(rows, block, pool, work);
}

// pooled and energy: as in Pool, through which they are written to.
// NOLINTBEGIN(readability-non-const-parameter)
void Run(const FilterBank& bank, const FilterBank::Block& block, const PatchRows& rows, const PoolingAxis& vertical,
         const PoolingAxis& horizontal, int origin, float* work, float* pooled, double* energy) {
  const Pool pool{vertical, horizontal, origin, pooled, energy};
  // NOLINTEND(readability-non-const-parameter)
  const BlockView view{bank.weights(block), bank.bias(block), bank.limit(block)};
  switch (block.vectors) {
    case 1:
      return RunBlock<1>(rows, view, pool, work);
    case 2:
      return RunBlock<2>(rows, view, pool, work);
    case 3:
      return RunBlock<3>(rows, view, pool, work);
    default:
      return RunBlock<4>(rows, view, pool, work);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ckn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ckn {
namespace {

HWY_EXPORT(AddBlock);
HWY_EXPORT(Run);
HWY_EXPORT(Width);
HWY_EXPORT(WorkFloats);

}  // namespace

std::pair<int, int> PoolingAxis::Reached(int begin, int end) const {
  const int shift = (subsampling - 1) / 2;
  const int low = begin - shift - radius;
  const int high = end - shift + radius;
  return {low <= 0 ? 0 : (low + subsampling - 1) / subsampling, high < 0 ? -1 : std::min(size - 1, high / subsampling)};
}

void ActivateAndPool(const FilterBank& bank, const FilterBank::Block& block, const PatchRows& rows,
                     const PoolingAxis& vertical, const PoolingAxis& horizontal, int p, AlignedFloats& scratch,
                     float* pooled, double* energy) {
  const std::size_t width = HWY_DYNAMIC_DISPATCH(Width)(block);
  const auto [first, last] = vertical.Reached(rows.first_row, rows.first_row + rows.rows - 1);
  if (first > last && energy == nullptr) return;
  const auto columns = static_cast<std::size_t>(horizontal.size);
  const std::size_t outputs = static_cast<std::size_t>(std::max(0, last - first + 1)) * columns;
  const std::size_t work = HWY_DYNAMIC_DISPATCH(WorkFloats)(block, rows);
  scratch.Reserve(work + outputs * width);
  float* const block_pooled = scratch.data() + work;
  std::fill_n(block_pooled, outputs * width, 0.0F);
  HWY_DYNAMIC_DISPATCH(Run)
  (bank, block, rows, vertical, horizontal, first, scratch.data(), block_pooled, energy);
  HWY_DYNAMIC_DISPATCH(AddBlock)
  (block_pooled, width, outputs, static_cast<std::size_t>(block.count), static_cast<std::size_t>(p),
   pooled + static_cast<std::size_t>(first) * columns * static_cast<std::size_t>(p) + block.first);
}

}  // namespace ckn
#endif  // HWY_ONCE
