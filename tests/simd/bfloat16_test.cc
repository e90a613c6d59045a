#include "server/simd/bfloat16.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace ckn {
namespace {

float Rounded(float value) {
  float out = 0;
  RoundToBfloat16(&value, 1, &out);
  return out;
}

TEST(Bfloat16Test, NumbersWithEightBitsStay) {
  for (const float value :
       {0.0F, 1.0F, -1.0F, 0x1.fep+3F, -0x1.02p-20F, 0x1.fep+127F, 0x1p-126F, INFINITY, -INFINITY}) {
    EXPECT_EQ(Rounded(value), value);
  }
  EXPECT_TRUE(std::signbit(Rounded(-0.0F)));
}

TEST(Bfloat16Test, TiesGoToTheEvenNumber) {
  EXPECT_EQ(Rounded(0x1.01p0F), 1.0F);
  EXPECT_EQ(Rounded(0x1.03p0F), 0x1.04p0F);
  EXPECT_EQ(Rounded(-0x1.03p0F), -0x1.04p0F);
  EXPECT_EQ(Rounded(0x1.010002p0F), 0x1.02p0F);
  EXPECT_EQ(Rounded(0x1.02fffep0F), 0x1.02p0F);
  EXPECT_EQ(Rounded(0x1.ffp0F), 2.0F);
}

TEST(Bfloat16Test, WhatIsNotANumberStaysSo) {
  EXPECT_TRUE(std::isnan(Rounded(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(Rounded(-std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(Rounded(std::numeric_limits<float>::max()), INFINITY);
}

TEST(Bfloat16Test, TheErrorIsAtMostHalfOfTheLastOfEightBitsAtAnyLength) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (const std::size_t n : {0, 1, 3, 4, 7, 8, 31, 1000}) {
    std::vector<float> values(n), out(n);
    for (float& value : values) value = normal(rng);
    RoundToBfloat16(values.data(), n, out.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_LE(std::abs(out[i] - values[i]), std::ldexp(std::abs(values[i]), -8));
    }
    RoundToBfloat16(values.data(), n, values.data());
    EXPECT_EQ(values, out);
  }
}

}  // namespace
}  // namespace ckn
