#include "server/svm/linear_svm.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(LinearSvmTest, ScoresAreMargins) {
  LinearSvm svm;
  svm.weights.resize(2, 3);
  svm.weights << 1, 2, 3, -1, 0, 0.5F;
  svm.bias.resize(2);
  svm.bias << 10, -1;
  const std::vector<float> x = {1, 0, 2};
  EXPECT_THAT(svm.Score(x), testing::ElementsAre(17, -1));
}

TEST(StandardizationTest, CentresAndScales) {
  Standardization standardization;
  standardization.mean.resize(2);
  standardization.mean << 1, -1;
  standardization.scale = 2;
  std::vector<float> x = {5, 3};
  standardization.Apply(x);
  EXPECT_THAT(x, testing::ElementsAre(2, 2));
}

TEST(ArgMaxTest, TakesTheFirstOfEquals) {
  EXPECT_EQ(ArgMax(std::vector<float>{1, 3, 3}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{-1}), 0);
}

TEST(TopKTest, OrdersByScoreThenIndexAndClampsK) {
  const std::vector<float> scores = {1, 5, -2, 5, 3};
  EXPECT_THAT(TopK(scores, 3), testing::ElementsAre(1, 3, 4));
  EXPECT_THAT(TopK(scores, 99), testing::ElementsAre(1, 3, 4, 0, 2));
  EXPECT_THAT(TopK(scores, 0), testing::IsEmpty());
}

}  // namespace
}  // namespace ckn
