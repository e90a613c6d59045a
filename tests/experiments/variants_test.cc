#include "server/experiments/variants.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<NetworkPlan> Plans(const char* architecture) {
  const bool mnist = std::string(architecture).find("cifar") == std::string::npos;
  const auto recipe = BuiltInRecipe(architecture);
  EXPECT_TRUE(recipe.ok()) << recipe.status();
  auto plans = ResolveRecipes(*recipe, mnist ? 28 : 32, mnist ? 28 : 32, mnist ? 1 : 3);
  EXPECT_TRUE(plans.ok()) << plans.status();
  return *std::move(plans);
}

std::string Refusal(const char* variant, const char* architecture) {
  std::vector<NetworkPlan> plans = Plans(architecture);
  LearningOptions learning;
  return std::string(ApplyVariant(variant, plans, learning).message());
}

TEST(VariantsTest, NoneChangesNothing) {
  std::vector<NetworkPlan> plans = Plans("ckn-pm1");
  LearningOptions learning;
  ASSERT_TRUE(ApplyVariant("", plans, learning).ok());
  EXPECT_EQ(learning.method, LearningOptions().method);
  EXPECT_FALSE(plans[0].layers[0].whiten);
}

TEST(VariantsTest, JoinedOnesAreAllApplied) {
  std::vector<NetworkPlan> plans = Plans("ckn-pm-cifar10");
  ASSERT_TRUE(plans[0].layers[0].layer.subtract_patch_mean);
  ASSERT_GT(plans[0].layers[1].principal_components, 0);
  ASSERT_GT(plans[0].layers[1].pairs_factor, 1);
  LearningOptions learning;
  ASSERT_TRUE(ApplyVariant("defaults+nystrom+uncentred+whitened", plans, learning).ok());
  EXPECT_EQ(learning.method, LearningMethod::kNystrom);
  EXPECT_FALSE(plans[0].layers[0].layer.subtract_patch_mean);
  EXPECT_TRUE(plans[0].layers[0].whiten);
  EXPECT_FALSE(plans[0].layers[1].whiten);
  EXPECT_EQ(plans[0].layers[1].sigma_quantile, 0.1);
  EXPECT_EQ(plans[0].layers[1].principal_components, 0);
  EXPECT_EQ(plans[0].layers[1].pairs_factor, 1);
}

TEST(VariantsTest, OfACombinationTheMapsOfPixelsAreChanged) {
  std::vector<NetworkPlan> plans = Plans("ckn-co-mnist");
  LearningOptions learning;
  ASSERT_TRUE(ApplyVariant("centred", plans, learning).ok());
  EXPECT_FALSE(plans[0].layers[0].layer.subtract_patch_mean);
  EXPECT_TRUE(plans[1].layers[0].layer.subtract_patch_mean);
}

TEST(VariantsTest, WhatWouldChangeNothingIsRefused) {
  EXPECT_THAT(Refusal("whitened", "ckn-gm1"), AllOf(HasSubstr("whitened"), HasSubstr("a network of pixels")));
  EXPECT_THAT(Refusal("uncentred", "ckn-pm1"), HasSubstr("not uncentred already"));
  EXPECT_THAT(Refusal("centred", "ckn-pm-cifar10"), HasSubstr("not centred already"));
}

TEST(VariantsTest, WrongNamesAreRefused) {
  EXPECT_THAT(Refusal("nystroem", "ckn-pm1"), AllOf(HasSubstr("\"nystroem\""), HasSubstr("nystrom, centred")));
  EXPECT_THAT(Refusal("nystrom+", "ckn-pm1"), HasSubstr("got \"\""));
  EXPECT_THAT(Refusal("sgd+nystrom", "ckn-pm1"), HasSubstr("got sgd and nystrom, expected one of them"));
  EXPECT_THAT(Refusal("nystrom+nystrom", "ckn-pm1"), HasSubstr("expected one of them"));
  EXPECT_THAT(Refusal("whitened+nystrom", "ckn-pm1"), HasSubstr("whitened before nystrom"));
}

TEST(VariantsTest, EachNameIsAVariant) {
  const std::vector<std::string> names = VariantNames();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_TRUE(std::ranges::all_of(names, [](const std::string& name) { return CheckVariant(name).ok(); }));
  EXPECT_FALSE(CheckVariant("").ok());
}

}  // namespace
}  // namespace ckn
