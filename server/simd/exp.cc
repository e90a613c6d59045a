#include "server/simd/exp.h"

// Highway compiles the lines between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/simd/exp.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
// Highway's form: the inner name is a macro.
// NOLINTNEXTLINE(modernize-concat-nested-namespaces)
namespace ckn {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void ExpAffine(float slope, const float* bias, float factor, float* values, std::size_t n) {
  const hn::ScalableTag<float> d;
  const auto slopes = hn::Set(d, slope);
  const auto factors = hn::Set(d, factor);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto argument = hn::MulAdd(slopes, hn::LoadU(d, values + i), hn::LoadU(d, bias + i));
    hn::StoreU(hn::Mul(factors, hn::Exp(d, argument)), d, values + i);
  }
  if (i < n) {  // the rest through a full vector, so that no lane depends on where n ends
    HWY_ALIGN float tail[hn::MaxLanes(d)] = {};
    HWY_ALIGN float tail_bias[hn::MaxLanes(d)] = {};
    for (std::size_t j = i; j < n; ++j) {
      tail[j - i] = values[j];
      tail_bias[j - i] = bias[j];
    }
    const auto argument = hn::MulAdd(slopes, hn::Load(d, tail), hn::Load(d, tail_bias));
    hn::Store(hn::Mul(factors, hn::Exp(d, argument)), d, tail);
    for (std::size_t j = i; j < n; ++j) values[j] = tail[j - i];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ckn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ckn {

HWY_EXPORT(ExpAffine);

void ExpAffine(float slope, const float* bias, float factor, float* values, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(ExpAffine)(slope, bias, factor, values, n);
}

}  // namespace ckn
#endif  // HWY_ONCE
