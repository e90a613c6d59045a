#include "server/training/kmeans.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

RowMatrixF Blobs(Eigen::Index n, int blobs, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 0.05F);
  RowMatrixF points(n, 3);
  for (Eigen::Index i = 0; i < n; ++i) {
    const auto blob = static_cast<float>(i % blobs);
    points.row(i) << blob + normal(rng), -blob + normal(rng), normal(rng);
  }
  return points;
}

TEST(KMeansTest, FindsSeparatedBlobs) {
  ThreadPool pool(2);
  const absl::StatusOr<RowMatrixF> centroids = KMeans(Blobs(4000, 4, 1), 4, 30, Centroids::kMeans, 3, pool, Progress{});
  ASSERT_TRUE(centroids.ok());
  std::vector<float> first;
  for (int c = 0; c < 4; ++c) first.push_back((*centroids)(c, 0));
  std::sort(first.begin(), first.end());
  for (int c = 0; c < 4; ++c) EXPECT_NEAR(first[c], c, 0.02);
}

TEST(KMeansTest, ThreadsDoNotChangeABit) {
  ThreadPool one(1), three(3);
  const RowMatrixF points = Blobs(5000, 7, 2);
  EXPECT_EQ(*KMeans(points, 9, 10, Centroids::kMeans, 5, one, Progress{}),
            *KMeans(points, 9, 10, Centroids::kMeans, 5, three, Progress{}));
}

TEST(KMeansTest, LeavesNoEmptyCluster) {
  // Half of the points are one point, so several first centroids coincide and all but one of them start empty.
  ThreadPool pool(2);
  RowMatrixF points = Blobs(400, 8, 3);
  for (Eigen::Index i = 0; i < 200; ++i) points.row(i).setConstant(20);
  const absl::StatusOr<RowMatrixF> centroids = KMeans(points, 8, 40, Centroids::kMeans, 1, pool, Progress{});
  ASSERT_TRUE(centroids.ok());
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < a; ++b) EXPECT_GT(((*centroids).row(a) - (*centroids).row(b)).norm(), 0.001F);
  }
}

TEST(KMeansTest, NeedsAsManyPointsAsClusters) {
  ThreadPool pool(1);
  const absl::Status status = KMeans(RowMatrixF::Ones(3, 2), 4, 5, Centroids::kMeans, 1, pool, Progress{}).status();
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("got 3 points, expected at least the number of filters, 4"));
}

}  // namespace
}  // namespace ckn
