#include "client/load/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(LatencyHistogramTest, EmptyHasNoValues) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.Quantile(0.5), 0);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_TRUE(histogram.Buckets().empty());
}

TEST(LatencyHistogramTest, SmallValuesAreExact) {
  LatencyHistogram histogram;
  for (int i = 0; i <= 200; ++i) histogram.Record(i);
  EXPECT_EQ(histogram.Quantile(0), 0);
  EXPECT_EQ(histogram.Quantile(0.5), 100);
  EXPECT_EQ(histogram.Quantile(1), 200);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.mean(), 100);
  EXPECT_EQ(histogram.Buckets().size(), 201U);
}

TEST(LatencyHistogramTest, NegativeValuesCountAsNull) {
  LatencyHistogram histogram;
  histogram.Record(-5);
  EXPECT_EQ(histogram.count(), 1);
  EXPECT_EQ(histogram.max(), 0);
}

// Every value is in exactly one bucket, which is no wider than 1/128 of its values; neighbours leave no gap.
TEST(LatencyHistogramTest, BucketsCoverAllValuesAndAreNarrow) {
  LatencyHistogram histogram;
  std::int64_t value = 0;
  while (value < std::int64_t{1} << 50) {
    histogram.Record(value);
    value = std::max(value + 1, histogram.Buckets().back().upper + 1);  // the next bucket's first
  }
  std::int64_t next = 0;
  for (const LatencyHistogram::Bucket& bucket : histogram.Buckets()) {
    ASSERT_EQ(bucket.lower, next);
    ASSERT_EQ(bucket.count, 1) << bucket.lower;
    ASSERT_LE(bucket.upper - bucket.lower, bucket.lower / 128) << bucket.lower;
    next = bucket.upper + 1;
  }
  EXPECT_GE(next, std::int64_t{1} << 50);
}

TEST(LatencyHistogramTest, TheLargestValueThatThereIsHasABucket) {
  LatencyHistogram histogram;
  histogram.Record(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(histogram.Quantile(0.5), std::numeric_limits<std::int64_t>::max());
  ASSERT_EQ(histogram.Buckets().size(), 1U);
  EXPECT_EQ(histogram.Buckets()[0].upper, std::numeric_limits<std::int64_t>::max());
}

TEST(LatencyHistogramTest, QuantilesAreNeverBelowTheTrueOnesAndAboveByAtMostOneIn128) {
  std::mt19937_64 rng(7);
  std::lognormal_distribution<double> distribution(13, 2);  // around half a millisecond, over five decades
  LatencyHistogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(static_cast<std::int64_t>(distribution(rng)));
    histogram.Record(values.back());
  }
  std::ranges::sort(values);
  for (const double q : {0.001, 0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
    const std::int64_t exact = values[rank - 1];
    EXPECT_GE(histogram.Quantile(q), exact) << q;
    EXPECT_LE(histogram.Quantile(q), exact + exact / 128) << q;
  }
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_EQ(histogram.min(), values.front());
}

TEST(LatencyHistogramTest, AddingIsRecordingAllValues) {
  LatencyHistogram low, high, all;
  for (int i = 0; i < 1000; ++i) {
    (i % 3 == 0 ? low : high).Record(i % 3 == 0 ? i : 1000 * i);
    all.Record(i % 3 == 0 ? i : 1000 * i);
  }
  LatencyHistogram sum;
  sum.Add(LatencyHistogram());
  sum.Add(high);
  sum.Add(low);
  EXPECT_EQ(sum.count(), all.count());
  EXPECT_EQ(sum.min(), all.min());
  EXPECT_EQ(sum.max(), all.max());
  EXPECT_DOUBLE_EQ(sum.mean(), all.mean());
  for (const double q : {0.1, 0.5, 0.99}) EXPECT_EQ(sum.Quantile(q), all.Quantile(q)) << q;
}

}  // namespace
}  // namespace ckn
