#include "client/load/arrival_schedule.h"

#include <chrono>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace ckn {
namespace {

using std::chrono::nanoseconds;

std::vector<std::int64_t> Times(ArrivalSchedule schedule, int count) {
  std::vector<std::int64_t> times;
  for (int i = 0; i < count; ++i) times.push_back(schedule.Next().count());
  return times;
}

TEST(ArrivalScheduleTest, ConstantTimesDoNotDrift) {
  ArrivalSchedule schedule(3000, Arrivals::kConstant, 1);  // 333333.3... ns apart
  EXPECT_EQ(schedule.Next(), nanoseconds(0));
  EXPECT_EQ(schedule.Next(), nanoseconds(333333));
  EXPECT_EQ(schedule.Next(), nanoseconds(666667));
  EXPECT_EQ(schedule.Next(), std::chrono::milliseconds(1));
  nanoseconds last{};
  for (int i = 4; i <= 3'000'000; ++i) last = schedule.Next();
  EXPECT_EQ(last, std::chrono::seconds(1000));
}

TEST(ArrivalScheduleTest, PoissonTimesAreExponentiallyApart) {
  constexpr int kCount = 200000;
  constexpr double kRate = 500;
  const auto times = Times(ArrivalSchedule(kRate, Arrivals::kPoisson, 42), kCount);
  EXPECT_EQ(times.front(), 0);
  double sum = 0, squares = 0;
  int above_mean = 0;
  for (int i = 1; i < kCount; ++i) {
    const double gap = 1e-9 * static_cast<double>(times[i] - times[i - 1]);
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
    above_mean += gap > 1 / kRate ? 1 : 0;
  }
  // Mean and standard deviation of an exponential are the same; e^-1 of it is above the mean. Bounds of 5 sigma.
  const double n = kCount - 1;
  const double mean = sum / n;
  EXPECT_NEAR(mean * kRate, 1, 5 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n - mean * mean) * kRate, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(above_mean / n, std::exp(-1), 5 * 0.5 / std::sqrt(n));
}

TEST(ArrivalScheduleTest, TheSeedDecides) {
  EXPECT_EQ(Times(ArrivalSchedule(10, Arrivals::kPoisson, 3), 50),
            Times(ArrivalSchedule(10, Arrivals::kPoisson, 3), 50));
  EXPECT_NE(Times(ArrivalSchedule(10, Arrivals::kPoisson, 3), 50),
            Times(ArrivalSchedule(10, Arrivals::kPoisson, 4), 50));
}

}  // namespace
}  // namespace ckn
