#include "server/simd/exp.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/simd_targets.h"

namespace ckn {
namespace {

using ::ckn::testing::ForEachTarget;

TEST(ExpAffineTest, MatchesDoublePrecisionOnEveryTargetLengthAndAlignment) {
  int targets = 0;
  ForEachTarget([&targets] {
    ++targets;
    std::mt19937 rng(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (const std::size_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 50, 400, 801}) {
      for (const std::size_t offset : {0, 1, 3}) {
        std::vector<float> values(n + offset), bias(n + offset);
        for (float& v : values) v = uniform(rng);
        for (float& b : bias) b = -4 + 4 * uniform(rng);
        const std::vector<float> before = values;
        ExpAffine(3.5F, bias.data() + offset, 2, values.data() + offset, n);
        for (std::size_t i = offset; i < n + offset; ++i) {
          const double argument = 3.5 * before[i] + bias[i];
          const double expected = 2 * std::exp(argument);
          // The argument itself is rounded to single precision.
          const double tolerance = kExpRelTol + std::abs(argument) * 1.2e-7;
          EXPECT_NEAR(values[i], expected, tolerance * expected) << "n " << n << " i " << i;
        }
      }
    }
  });
  EXPECT_GE(targets, 1);
}

TEST(ExpAffineTest, UnderflowsToZeroOnEveryTarget) {
  ForEachTarget([] {
    std::vector<float> values(37, 1.0F);
    const std::vector<float> bias(37, -1e30F);
    ExpAffine(2, bias.data(), 5, values.data(), values.size());
    for (const float value : values) EXPECT_EQ(value, 0);
  });
}

TEST(ExpAffineTest, ALaneDoesNotDependOnWhereTheRowEnds) {
  std::vector<float> bias(64, -0.25F);
  std::vector<float> whole(64);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = 0.01F * static_cast<float>(i);
  for (std::size_t n = 1; n < whole.size(); ++n) {
    std::vector<float> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    std::vector<float> all = whole;
    ExpAffine(1.5F, bias.data(), 1, part.data(), n);
    ExpAffine(1.5F, bias.data(), 1, all.data(), all.size());
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(part[i], all[i]) << n;
  }
}

}  // namespace
}  // namespace ckn
