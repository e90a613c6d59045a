#include "server/simd/dot.h"

// Highway compiles the lines between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/simd/dot.cc"
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

// Four sums, since the next addition to one has to wait for the last.
HWY_INLINE float Dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::size_t n) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  Vec sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum0);
    sum1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), sum1);
    sum2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), sum2);
    sum3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), sum3);
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum0);
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void RowDots(const float* HWY_RESTRICT rows, std::size_t count, std::size_t dim, const float* HWY_RESTRICT x,
             float* HWY_RESTRICT out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = Dot(rows + i * dim, x, dim);
}

}  // namespace HWY_NAMESPACE
}  // namespace ckn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ckn {

HWY_EXPORT(RowDots);

void RowDots(const float* rows, std::size_t count, std::size_t dim, const float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(RowDots)(rows, count, dim, x, out);
}

}  // namespace ckn
#endif  // HWY_ONCE
