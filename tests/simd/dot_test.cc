#include "server/simd/dot.h"

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/simd_targets.h"

namespace ckn {
namespace {

using ::ckn::testing::ForEachTarget;

TEST(RowDotsTest, MatchDoublePrecisionOnEveryTargetAndLength) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  ForEachTarget([&] {
    for (const std::size_t dim : {0, 1, 3, 4, 7, 8, 16, 31, 32, 33, 63, 64, 65, 127, 800}) {
      for (const std::size_t count : {1, 2, 5}) {
        std::vector<float> rows(count * dim), x(dim), got(count + 1, -7.0F);
        for (float& value : rows) value = normal(rng);
        for (float& value : x) value = normal(rng);
        RowDots(rows.data(), count, dim, x.data(), got.data());
        for (std::size_t i = 0; i < count; ++i) {
          double sum = 0, size = 0;
          for (std::size_t k = 0; k < dim; ++k) {
            const double product = double{rows[i * dim + k]} * double{x[k]};
            sum += product;
            size += std::abs(product);
          }
          ASSERT_NEAR(got[i], sum, 1e-6 * size) << "row " << i << " of " << count << ", length " << dim;
        }
        ASSERT_EQ(got[count], -7.0F) << "written behind the last";
      }
    }
  });
}

}  // namespace
}  // namespace ckn
