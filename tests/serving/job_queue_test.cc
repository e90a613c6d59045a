#include "server/serving/job_queue.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using ::testing::ElementsAre;

class JobQueueTest : public ::testing::Test {
 protected:
  std::shared_ptr<RunningJob> Push(std::size_t items) {
    auto running = std::make_shared<RunningJob>(Job{.items = items, .run = nullptr, .done = nullptr});
    queue_.Push(running);
    return running;
  }

  // The number of items taken until each of the jobs has none left.
  std::vector<int> Ends(const std::vector<std::shared_ptr<RunningJob>>& jobs) {
    std::vector<int> ends(jobs.size());
    for (int taken = 1; !queue_.empty(); ++taken) {
      const JobQueue::Item item = queue_.Take();
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (item.running == jobs[i] && jobs[i]->next == jobs[i]->job.items) ends[i] = taken;
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
    const JobQueue::Item item = queue_.Take();
    EXPECT_EQ(&item.running->job, &next);
    EXPECT_TRUE(items.insert({item.running.get(), item.index}).second);
    EXPECT_LT(item.index, item.running->job.items);
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
    queue_.Take();
  }
}

}  // namespace
}  // namespace ckn
