#include "server/training/held_out_curve.h"

#include <vector>

#include "gtest/gtest.h"

namespace ckn {
namespace {

constexpr int kImages = 1000;

// Images first ... last - 1 are wrong.
std::vector<bool> Wrong(int first, int last) {
  std::vector<bool> wrong(kImages);
  for (int i = first; i < last; ++i) wrong[i] = true;
  return wrong;
}

// Falls from 300 to 100 errors.
HeldOutCurve Falling() {
  HeldOutCurve curve;
  for (const int errors : {300, 200, 100}) {
    curve.Add(Wrong(0, errors));
    EXPECT_FALSE(curve.BestIsBehind()) << errors;
  }
  return curve;
}

TEST(HeldOutCurveTest, NothingIsBehindBeforeTheFirstValue) { EXPECT_FALSE(HeldOutCurve().BestIsBehind()); }

TEST(HeldOutCurveTest, TwoClearlyWorseValuesEndIt) {
  HeldOutCurve curve = Falling();
  // Nine images more and none fewer: three standard deviations.
  curve.Add(Wrong(0, 109));
  EXPECT_FALSE(curve.BestIsBehind());
  curve.Add(Wrong(0, 112));
  EXPECT_TRUE(curve.BestIsBehind());
}

TEST(HeldOutCurveTest, WhatDiffersByChanceIsNotClearlyWorse) {
  HeldOutCurve curve = Falling();
  // 24 more errors, but all on other images: of 224 that differ that is 1.6 standard deviations.
  curve.Add(Wrong(100, 224));
  curve.Add(Wrong(100, 224));
  EXPECT_FALSE(curve.BestIsBehind());
  // Four more and none fewer are just two.
  HeldOutCurve nested = Falling();
  nested.Add(Wrong(0, 104));
  nested.Add(Wrong(0, 104));
  EXPECT_FALSE(nested.BestIsBehind());
}

TEST(HeldOutCurveTest, WorseValuesCountInARow) {
  HeldOutCurve curve = Falling();
  curve.Add(Wrong(0, 150));
  curve.Add(Wrong(0, 101));
  curve.Add(Wrong(0, 150));
  EXPECT_FALSE(curve.BestIsBehind());
  curve.Add(Wrong(0, 150));
  EXPECT_TRUE(curve.BestIsBehind());
}

TEST(HeldOutCurveTest, ABetterValueStartsAnew) {
  HeldOutCurve curve = Falling();
  curve.Add(Wrong(0, 150));
  curve.Add(Wrong(0, 90));
  curve.Add(Wrong(0, 150));
  EXPECT_FALSE(curve.BestIsBehind());
  // Worse than the new best by three deviations, better than the old.
  curve.Add(Wrong(0, 99));
  EXPECT_TRUE(curve.BestIsBehind());
}

TEST(HeldOutCurveTest, SixValuesThatAreNoBetterEndIt) {
  HeldOutCurve curve = Falling();
  for (int i = 1; i <= 6; ++i) {
    EXPECT_FALSE(curve.BestIsBehind()) << i;
    curve.Add(Wrong(0, 100));
  }
  EXPECT_TRUE(curve.BestIsBehind());
}

TEST(HeldOutCurveTest, ItGoesOnWhileTheFirstValueIsTheBest) {
  HeldOutCurve curve;
  for (int i = 0; i < 10; ++i) curve.Add(Wrong(0, 900));
  for (int i = 0; i < 10; ++i) curve.Add(Wrong(0, 950));
  EXPECT_FALSE(curve.BestIsBehind());
}

}  // namespace
}  // namespace ckn
