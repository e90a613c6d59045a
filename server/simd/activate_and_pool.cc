#include "server/simd/activate_and_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>
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

int Lanes() { return static_cast<int>(hn::Lanes(Tag())); }

// Vectors of a block, for patches of this many elements. The more there are, the fewer loads a product takes, as long
// as the block's filters fit the first-level cache.
int MaxVectors(std::size_t dim) { return HWY_TARGET <= HWY_AVX3 && dim <= 128 ? 4 : 3; }

// 2^t; 0 below -126, and no more than 2^127. Relative error at most 3e-7.
HWY_INLINE Vec Exp2(Tag d, Vec t) {
  const hn::RebindToSigned<Tag> integers;
  // Added and taken away again, it leaves the nearest integer; with it, that integer is in the low bits.
  const Vec round = hn::Set(d, 0x1.8p23F);
  const Vec bounded = hn::Min(t, hn::Set(d, 127.0F));
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

// A patch's part of an activation: norm * 2^(slope * sum + offset + bias).
struct Folded {
  Folded(Tag d, const PatchRows& rows, std::size_t at)
      : slope(hn::Set(d, rows.slope[at])), offset(hn::Set(d, rows.offset[at])), norm(hn::Set(d, rows.norm[at])) {}
  [[nodiscard]] HWY_INLINE Vec Activation(Tag d, Vec sum, Vec bias) const {
    return hn::Mul(norm, Exp2(d, hn::MulAdd(slope, sum, hn::Add(offset, bias))));
  }
  Vec slope, offset, norm;
};

// out[i][v]: the activations, or with kSumsFirst the sums w . psi_i, of `kPatches` neighbouring patches and `kVectors`
// vectors of filters. Not inlined: the constants of the exponential would take registers of the products.
template <int kPatches, int kVectors>
HWY_NOINLINE void Tile(const PatchRows& rows, const float* HWY_RESTRICT patch, [[maybe_unused]] std::size_t at,
                       const float* HWY_RESTRICT weights, [[maybe_unused]] const float* HWY_RESTRICT bias,
                       float* HWY_RESTRICT out) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t stride = rows.patch_stride;
  Vec sum[kPatches][kVectors];
  for (auto& patch_sums : sum) {
    for (Vec& value : patch_sums) value = hn::Zero(d);
  }
  const std::size_t* HWY_RESTRICT elements = rows.elements.data();
  const std::size_t dim = rows.elements.size();
  for (std::size_t k = 0; k < dim; ++k) {
    const float* HWY_RESTRICT element = patch + elements[k];
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
    if constexpr (kSumsFirst) {
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) hn::Store(sum[i][v], d, to + static_cast<std::size_t>(v) * lanes);
    } else {
      const Folded folded(d, rows, at + static_cast<std::size_t>(i));
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        const std::size_t l = static_cast<std::size_t>(v) * lanes;
        hn::Store(folded.Activation(d, sum[i][v], hn::Load(d, bias + l)), d, to + l);
      }
    }
  }
}

// The sums of `count` patches from `at` on become their activations.
template <int kVectors>
HWY_NOINLINE void ActivateSums(const PatchRows& rows, std::size_t at, std::size_t count, const float* HWY_RESTRICT bias,
                               float* HWY_RESTRICT sums) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < count; ++i) {
    const Folded folded(d, rows, at + i);
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const std::size_t l = static_cast<std::size_t>(v) * lanes;
      hn::Store(folded.Activation(d, hn::Load(d, sums + l), hn::Load(d, bias + l)), d, sums + l);
    }
    sums += kVectors * lanes;
  }
}

// Tiles of `count` patches, which is at most kPatches.
template <int kPatches, int kVectors>
HWY_INLINE void TileOf(int count, const PatchRows& rows, const float* patch, std::size_t at, const float* weights,
                       const float* bias, float* out) {
  if constexpr (kPatches > 1) {
    if (count < kPatches) return TileOf<kPatches - 1, kVectors>(count, rows, patch, at, weights, bias, out);
  }
  Tile<kPatches, kVectors>(rows, patch, at, weights, bias, out);
}

// The row's activations [columns][kVectors * lanes], in tiles of equal size, as far as that goes.
template <int kVectors>
void ActivateRow(const PatchRows& rows, int row, const float* weights, const float* bias, float* out) {
  constexpr int kTilePatches = std::min(kAccumulators / kVectors, kMaxPatches);
  const std::size_t lanes = hn::Lanes(Tag());
  const float* const patches = rows.patches + static_cast<std::size_t>(row) * rows.row_stride;
  const std::size_t first = static_cast<std::size_t>(row) * static_cast<std::size_t>(rows.columns);
  const int tiles = (rows.columns + kTilePatches - 1) / kTilePatches;
  for (int tile = 0; tile < tiles; ++tile) {
    const auto begin = static_cast<std::size_t>(rows.columns * tile / tiles);
    const auto end = static_cast<std::size_t>(rows.columns * (tile + 1) / tiles);
    TileOf<kTilePatches, kVectors>(static_cast<int>(end - begin), rows, patches + begin * rows.patch_stride,
                                   first + begin, weights, bias, out + begin * kVectors * lanes);
  }
  if constexpr (kSumsFirst) ActivateSums<kVectors>(rows, first, static_cast<std::size_t>(rows.columns), bias, out);
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

template <int kVectors>
void RunBlock(const PatchRows& rows, const float* weights, const float* bias, const PoolingAxis& vertical,
              const PoolingAxis& horizontal, int origin, float* activations, float* pooled, double* energy) {
  const std::size_t row_size = static_cast<std::size_t>(rows.columns) * kVectors * hn::Lanes(Tag());
  for (int row = 0; row < rows.rows; ++row) {
    ActivateRow<kVectors>(rows, row, weights, bias, activations);
    if (energy != nullptr) *energy += static_cast<double>(Energy(activations, row_size));
    PoolRow<kVectors>(activations, rows.columns, rows.first_row + row, vertical, horizontal, origin, pooled);
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

// activations [columns][vectors * lanes] and pooled [output rows from origin on][output columns][vectors * lanes] are
// of the block only.
void Run(int vectors, const PatchRows& rows, const float* weights, const float* bias, const PoolingAxis& vertical,
         const PoolingAxis& horizontal, int origin, float* activations, float* pooled, double* energy) {
  switch (vectors) {
    case 1:
      return RunBlock<1>(rows, weights, bias, vertical, horizontal, origin, activations, pooled, energy);
    case 2:
      return RunBlock<2>(rows, weights, bias, vertical, horizontal, origin, activations, pooled, energy);
    case 3:
      return RunBlock<3>(rows, weights, bias, vertical, horizontal, origin, activations, pooled, energy);
    default:
      return RunBlock<4>(rows, weights, bias, vertical, horizontal, origin, activations, pooled, energy);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ckn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ckn {
namespace {

HWY_EXPORT(AddBlock);
HWY_EXPORT(Lanes);
HWY_EXPORT(MaxVectors);
HWY_EXPORT(Run);

constexpr std::size_t kCacheLine = 64;
// 2 to this is 0: the filters that fill up the last vector.
constexpr float kLog2Zero = -1e30F;

}  // namespace

std::pair<int, int> PoolingAxis::Reached(int begin, int end) const {
  const int shift = (subsampling - 1) / 2;
  const int low = begin - shift - radius;
  const int high = end - shift + radius;
  return {low <= 0 ? 0 : (low + subsampling - 1) / subsampling, high < 0 ? -1 : std::min(size - 1, high / subsampling)};
}

void AlignedFloats::Free::operator()(float* data) const { std::free(data); }  // NOLINT(cppcoreguidelines-no-malloc)

void AlignedFloats::Reserve(std::size_t size) {
  if (size <= size_) return;
  const std::size_t bytes = (size * sizeof(float) + kCacheLine - 1) / kCacheLine * kCacheLine;
  data_.reset();
  data_.reset(static_cast<float*>(std::aligned_alloc(kCacheLine, bytes)));  // NOLINT(cppcoreguidelines-no-malloc)
  if (data_ == nullptr) throw std::bad_alloc();
  size_ = size;
}

FilterBank::FilterBank(const RowMatrixF& filters, const Eigen::VectorXf& bias) {
  const int lanes = HWY_DYNAMIC_DISPATCH(Lanes)();
  const auto p = static_cast<int>(filters.rows());
  const auto dim = static_cast<std::size_t>(filters.cols());
  // Blocks of about equal width: 4 vectors are 2 + 2, not 3 + 1.
  const int vectors = (p + lanes - 1) / lanes;
  const int max_vectors = HWY_DYNAMIC_DISPATCH(MaxVectors)(dim);
  const int count = (vectors + max_vectors - 1) / max_vectors;
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
    size = block.bias_at + width;
    blocks_.push_back(block);
  }
  data_.Reserve(size);
  for (const Block& block : blocks_) {
    const auto width = static_cast<std::size_t>(block.vectors) * static_cast<std::size_t>(lanes);
    for (std::size_t l = 0; l < width; ++l) {
      const bool padding = std::cmp_greater_equal(l, block.count);
      const Eigen::Index filter = block.first + static_cast<Eigen::Index>(l);
      data_.data()[block.bias_at + l] = padding ? kLog2Zero : bias[filter];
      for (std::size_t k = 0; k < dim; ++k) {
        data_.data()[block.weights_at + k * width + l] = padding ? 0 : filters(filter, static_cast<Eigen::Index>(k));
      }
    }
  }
}

void ActivateAndPool(const FilterBank& bank, const FilterBank::Block& block, const PatchRows& rows,
                     const PoolingAxis& vertical, const PoolingAxis& horizontal, int p, AlignedFloats& scratch,
                     float* pooled, double* energy) {
  const auto width = static_cast<std::size_t>(block.vectors) * static_cast<std::size_t>(HWY_DYNAMIC_DISPATCH(Lanes)());
  const auto [first, last] = vertical.Reached(rows.first_row, rows.first_row + rows.rows - 1);
  if (first > last && energy == nullptr) return;
  const auto columns = static_cast<std::size_t>(horizontal.size);
  const std::size_t outputs = static_cast<std::size_t>(std::max(0, last - first + 1)) * columns;
  const std::size_t row = static_cast<std::size_t>(rows.columns) * width;
  scratch.Reserve(row + outputs * width);
  float* const block_pooled = scratch.data() + row;
  std::fill_n(block_pooled, outputs * width, 0.0F);
  HWY_DYNAMIC_DISPATCH(Run)
  (block.vectors, rows, bank.weights(block), bank.bias(block), vertical, horizontal, first, scratch.data(),
   block_pooled, energy);
  HWY_DYNAMIC_DISPATCH(AddBlock)
  (block_pooled, width, outputs, static_cast<std::size_t>(block.count), static_cast<std::size_t>(p),
   pooled + static_cast<std::size_t>(first) * columns * static_cast<std::size_t>(p) + block.first);
}

}  // namespace ckn
#endif  // HWY_ONCE
