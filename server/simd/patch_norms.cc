#include "server/simd/patch_norms.h"

// Highway compiles the lines between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/simd/patch_norms.cc"
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

// ||v||^2 of n numbers.
HWY_INLINE float SquaredNorm(const float* HWY_RESTRICT v, std::size_t n) {
  const Tag d;
  const hn::CappedTag<float, 4> quarter;
  const std::size_t lanes = hn::Lanes(d), few = hn::Lanes(quarter);
  std::size_t c = 0;
  float sum = 0;
  if (n >= lanes) {
    Vec sums = hn::Zero(d);
    for (; c + lanes <= n; c += lanes) {
      const Vec x = hn::LoadU(d, v + c);
      sums = hn::MulAdd(x, x, sums);
    }
    sum = hn::GetLane(hn::SumOfLanes(d, sums));
  }
  if (n - c >= few) {
    auto sums = hn::Zero(quarter);
    for (; c + few <= n; c += few) {
      const auto x = hn::LoadU(quarter, v + c);
      sums = hn::MulAdd(x, x, sums);
    }
    sum += hn::GetLane(hn::SumOfLanes(quarter, sums));
  }
  for (; c < n; ++c) sum += v[c] * v[c];
  return sum;
}

// out[i] = ||map[i]||^2 of `pixels` vectors of `channels` numbers.
void Squares(const float* HWY_RESTRICT map, std::size_t pixels, std::size_t channels, float* HWY_RESTRICT out) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  if (channels == 1) {
    for (; i + lanes <= pixels; i += lanes) {
      const Vec x = hn::LoadU(d, map + i);
      hn::StoreU(hn::Mul(x, x), d, out + i);
    }
  } else if (channels == 2) {
    for (; i + lanes <= pixels; i += lanes) {
      Vec x, y;
      hn::LoadInterleaved2(d, map + 2 * i, x, y);
      hn::StoreU(hn::MulAdd(x, x, hn::Mul(y, y)), d, out + i);
    }
  }
  for (; i < pixels; ++i) out[i] = SquaredNorm(map + i * channels, channels);
}

// squares [height * width], row_sums the same, both with kPatchSlack more. Rows are not told apart: what a window over
// the end of one gives is not used.
void PatchNorms(const float* map, std::size_t height, std::size_t width, std::size_t channels, std::size_t patch_size,
                float* HWY_RESTRICT squares, float* HWY_RESTRICT row_sums, float* HWY_RESTRICT norm) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t pixels = height * width;
  const std::size_t rows = height - patch_size + 1, columns = width - patch_size + 1;
  Squares(map, pixels, channels, patch_size == 1 ? row_sums : squares);
  if (patch_size > 1) {
    for (std::size_t i = 0; i < pixels; i += lanes) {
      Vec sum = hn::LoadU(d, squares + i);
      for (std::size_t k = 1; k < patch_size; ++k) sum = hn::Add(sum, hn::LoadU(d, squares + i + k));
      hn::StoreU(sum, d, row_sums + i);
    }
  }
  // Row after row: what is written behind the end of one, the next one overwrites.
  for (std::size_t y = 0; y < rows; ++y) {
    const float* HWY_RESTRICT sums = row_sums + y * width;
    for (std::size_t x = 0; x < columns; x += lanes) {
      Vec sum = hn::LoadU(d, sums + x);
      for (std::size_t k = 1; k < patch_size; ++k) sum = hn::Add(sum, hn::LoadU(d, sums + k * width + x));
      hn::StoreU(hn::Sqrt(sum), d, norm + y * columns + x);
    }
  }
}

void FoldNorms(float a, float epsilon, const float* HWY_RESTRICT norm, std::size_t count, float* HWY_RESTRICT slope,
               float* HWY_RESTRICT offset) {
  const Tag d;
  const Vec floor = hn::Set(d, epsilon), twice_a = hn::Set(d, 2 * a), factor = hn::Set(d, a), one = hn::Set(d, 1.0F);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const Vec value = hn::LoadU(d, norm + i);
    const Vec unit = hn::Div(value, floor);
    hn::StoreU(hn::Div(twice_a, hn::Max(value, floor)), d, slope + i);
    hn::StoreU(hn::IfThenElseZero(hn::Lt(value, floor), hn::Mul(factor, hn::NegMulAdd(unit, unit, one))), d,
               offset + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ckn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ckn {

HWY_EXPORT(PatchNorms);
HWY_EXPORT(FoldNorms);

void PatchNorms(const float* map, int height, int width, int channels, int patch_size, AlignedFloats& scratch,
                float* norm) {
  const auto h = static_cast<std::size_t>(height), w = static_cast<std::size_t>(width);
  const auto m = static_cast<std::size_t>(patch_size);
  const std::size_t size = h * w + m + kPatchSlack;
  scratch.Reserve(2 * size);
  HWY_DYNAMIC_DISPATCH(PatchNorms)
  (map, h, w, static_cast<std::size_t>(channels), m, scratch.data(), scratch.data() + size, norm);
}

void FoldNorms(float a, float epsilon, const float* norm, std::size_t count, float* slope, float* offset) {
  HWY_DYNAMIC_DISPATCH(FoldNorms)(a, epsilon, norm, count, slope, offset);
}

}  // namespace ckn
#endif  // HWY_ONCE
