#include "server/training/patch_pairs.h"

#include <cmath>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

// Image i is random in its right half and blank in its left one.
FeatureMap HalfBlankMap(std::size_t i) {
  std::mt19937 rng(static_cast<unsigned>(i));
  std::uniform_real_distribution<float> uniform(0.1F, 1);
  FeatureMap map(10, 10, 2);
  for (int y = 0; y < 10; ++y) {
    for (int x = 5; x < 10; ++x) {
      map.At(y, x)[0] = uniform(rng);
      map.At(y, x)[1] = uniform(rng);
    }
  }
  return map;
}

absl::StatusOr<PatchPairs> Sample(std::int64_t pairs, std::size_t images, int threads = 2, std::uint64_t seed = 1,
                                  std::uint64_t stream = 1) {
  ThreadPool pool(threads);
  PatchSampling sampling;
  sampling.pairs = pairs;
  sampling.patch_size = 2;
  sampling.seed = seed;
  sampling.stream = stream;
  return SamplePatchPairs(
      images, [](std::size_t i, int) { return HalfBlankMap(i); }, sampling, pool, Progress{});
}

TEST(PatchPairsTest, RowsAreUnitVectorsAndBlankPatchesAreDrawnAgain) {
  const absl::StatusOr<PatchPairs> pairs = Sample(500, 20);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  ASSERT_EQ(pairs->size(), 500);
  ASSERT_EQ(pairs->x.cols(), 8);
  for (Eigen::Index i = 0; i < pairs->size(); ++i) {
    EXPECT_NEAR(pairs->x.row(i).norm(), 1, 1e-5);
    EXPECT_NEAR(pairs->y.row(i).norm(), 1, 1e-5);
  }
  EXPECT_GT(DistanceQuantile(*pairs, 0.1), 0.05);
}

TEST(PatchPairsTest, DependsOnSeedAndStreamNotOnThreads) {
  const absl::StatusOr<PatchPairs> one = Sample(300, 50, 1);
  const absl::StatusOr<PatchPairs> four = Sample(300, 50, 4);
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(one->x, four->x);
  EXPECT_EQ(one->y, four->y);
  EXPECT_NE(one->x, Sample(300, 50, 1, 2)->x);
  EXPECT_NE(one->x, Sample(300, 50, 1, 1, 2)->x);
}

TEST(PatchPairsTest, WorksWithMoreImagesThanPatches) {
  const absl::StatusOr<PatchPairs> pairs = Sample(5, 1000);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_EQ(pairs->size(), 5);
}

TEST(PatchPairsTest, DrawsAboutEquallyFromAllImages) {
  // Image i holds one direction only, so that a patch tells where it comes from.
  ThreadPool pool(1);
  PatchSampling sampling;
  sampling.pairs = 1000;
  const std::size_t images = 10;
  const auto map_of = [](std::size_t i, int) {
    FeatureMap map(3, 3, 10);
    for (int p = 0; p < 9; ++p) map.values[p * 10 + i] = 1;
    return map;
  };
  const absl::StatusOr<PatchPairs> pairs = SamplePatchPairs(images, map_of, sampling, pool, Progress{});
  ASSERT_TRUE(pairs.ok());
  const Eigen::VectorXf share = (pairs->x.colwise().sum() + pairs->y.colwise().sum()).transpose() / 2000;
  for (Eigen::Index i = 0; i < 10; ++i) EXPECT_NEAR(share[i], 0.1, 0.011);
}

TEST(PatchPairsTest, BlankImagesAreAnErrorThatSaysSo) {
  ThreadPool pool(2);
  PatchSampling sampling;
  sampling.pairs = 10;
  const auto blank = [](std::size_t, int) { return FeatureMap(4, 4, 1); };
  const absl::Status status = SamplePatchPairs(5, blank, sampling, pool, Progress{}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("got 0 from 5 images"));
}

TEST(DistanceQuantileTest, IsTheOrderStatistic) {
  PatchPairs pairs{RowMatrixF::Zero(11, 1), RowMatrixF(11, 1)};
  for (int i = 0; i < 11; ++i) pairs.y(i, 0) = static_cast<float>((i * 7) % 11);  // 0..10, shuffled
  EXPECT_FLOAT_EQ(static_cast<float>(DistanceQuantile(pairs, 0.1)), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(DistanceQuantile(pairs, 0.5)), 5);
}

}  // namespace
}  // namespace ckn
