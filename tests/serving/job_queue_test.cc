#include "server/serving/job_queue.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using ::testing::ElementsAre;

class JobQueueTest : public ::testing::Test {
 protected:
  std::shared_ptr<RunningJob> Push(std::size_t items, absl::Duration estimate = absl::InfiniteDuration()) {
    auto running =
        std::make_shared<RunningJob>(Job{.items = items, .estimate = estimate, .run = nullptr, .done = nullptr});
    queue_.Push(running);
    return running;
  }

  // The number of items taken until each of the jobs has none left.
  std::vector<int> Ends(const std::vector<std::shared_ptr<RunningJob>>& jobs) {
    std::vector<int> ends(jobs.size());
    for (int taken = 1; !queue_.empty(); ++taken) {
      const JobQueue::Items items = queue_.Take(1);
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (items.running == jobs[i] && jobs[i]->next == jobs[i]->job.items) ends[i] = taken;
      }
    }
    return ends;
  }

  JobQueue queue_;
};

TEST_F(JobQueueTest, GivesEachItemOnce) {
  const auto a = Push(5), b = Push(3), c = Push(1);
  EXPECT_EQ(queue_.size(), 3U);
  std::set<std::pair<RunningJob*, std::size_t>> items;
  while (!queue_.empty()) {
    const Job& next = queue_.Next();
    const JobQueue::Items taken = queue_.Take(1);
    EXPECT_EQ(&taken.running->job, &next);
    EXPECT_EQ(taken.end, taken.begin + 1) << "of unknown length: one at a time";
    EXPECT_TRUE(items.insert({taken.running.get(), taken.begin}).second);
    EXPECT_LT(taken.begin, taken.running->job.items);
  }
  EXPECT_EQ(items.size(), 9U);
  EXPECT_EQ(queue_.size(), 0U);
}

TEST_F(JobQueueTest, SingleItemsComeInTheirOrder) {
  const std::vector jobs = {Push(1), Push(1), Push(1), Push(1), Push(1)};
  EXPECT_THAT(Ends(jobs), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(JobQueueTest, ShortOnesDoNotWaitForLongOnes) {
  const std::vector jobs = {Push(1000), Push(1), Push(2)};
  EXPECT_THAT(Ends(jobs), ElementsAre(1003, 1, 3));
}

TEST_F(JobQueueTest, JobsOfOneSizeEndOneAfterTheOther) {
  const std::vector jobs = {Push(64), Push(64), Push(64)};
  EXPECT_THAT(Ends(jobs), ElementsAre(64, 128, 192));
}

TEST_F(JobQueueTest, ALongOneGetsOnUnderASteadyFlowOfShortOnes) {
  const auto big = Push(10);
  for (int taken = 0; big->next < big->job.items; ++taken) {
    ASSERT_LT(taken, 40) << "every fourth item is its";
    Push(1);
    Push(1);
    queue_.Take(1);
  }
}

TEST_F(JobQueueTest, ShortItemsAreTakenTogetherWhileAllWorkersHaveMore) {
  const auto job = Push(64, absl::Microseconds(20));
  std::vector<std::size_t> counts;
  std::size_t next = 0;
  while (!queue_.empty()) {
    const JobQueue::Items items = queue_.Take(2);
    EXPECT_EQ(items.begin, next) << "each once, in order";
    next = items.end;
    counts.push_back(items.end - items.begin);
  }
  EXPECT_EQ(next, 64U);
  // 100 us are five of them; of the last 20 only a quarter at a time, so that both workers end together.
  EXPECT_THAT(counts, ElementsAre(5, 5, 5, 5, 5, 5, 5, 5, 5, 4, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1));
}

TEST_F(JobQueueTest, LongItemsAreTakenOneByOne) {
  for (const absl::Duration estimate : {absl::Microseconds(60), absl::Seconds(1), absl::InfiniteDuration()}) {
    Push(64, estimate);
    const JobQueue::Items items = queue_.Take(2);
    EXPECT_EQ(items.end - items.begin, 1U) << estimate;
    while (!queue_.empty()) queue_.Take(2);
  }
}

TEST_F(JobQueueTest, AnEstimateOfNothingTakesNoMoreThanAShare) {
  Push(100, absl::ZeroDuration());
  const JobQueue::Items items = queue_.Take(5);
  EXPECT_EQ(items.end - items.begin, 10U);
}

TEST_F(JobQueueTest, WorkIsWhatNobodyHasTaken) {
  EXPECT_EQ(queue_.work(), absl::ZeroDuration());
  Push(4, absl::Microseconds(50));
  EXPECT_EQ(queue_.work(), absl::Microseconds(200));
  Push(2);
  Push(1, absl::Seconds(1));
  EXPECT_EQ(queue_.work(), absl::Microseconds(200 + 3 * 200)) << "long items count as 200 us";
  while (!queue_.empty()) queue_.Take(1);
  EXPECT_EQ(queue_.work(), absl::ZeroDuration());
}

}  // namespace
}  // namespace ckn
