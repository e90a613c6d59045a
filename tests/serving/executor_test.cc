#include "server/serving/executor.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job that writes "NAME:ITEM" for each item and "NAME:done" into `log`; for executors driven by hand.
Job Logging(const std::string& name, std::size_t items, std::vector<std::string>& log) {
  return {.items = items,
          .run = [name, &log](std::size_t item) { log.push_back(name + ":" + std::to_string(item)); },
          .done = [name, &log] { log.push_back(name + ":done"); }};
}

TEST(ExecutorTest, RunsSingleItemJobsInOrder) {
  Executor executor({.threads = 0, .max_queue = 8}, nullptr);
  std::vector<std::string> log;
  ASSERT_TRUE(executor.Submit(Logging("a", 1, log)).ok());
  ASSERT_TRUE(executor.Submit(Logging("b", 1, log)).ok());
  EXPECT_TRUE(log.empty());
  EXPECT_TRUE(executor.RunOne());
  EXPECT_TRUE(executor.RunOne());
  EXPECT_FALSE(executor.RunOne());
  EXPECT_THAT(log, ElementsAre("a:0", "a:done", "b:0", "b:done"));
}

TEST(ExecutorTest, AShortJobOvertakesALongOne) {
  Executor executor({.threads = 0, .max_queue = 8}, nullptr);
  std::vector<std::string> log;
  ASSERT_TRUE(executor.Submit(Logging("big", 3, log)).ok());
  ASSERT_TRUE(executor.RunOne());
  ASSERT_TRUE(executor.Submit(Logging("small", 1, log)).ok());
  while (executor.RunOne()) {
  }
  EXPECT_THAT(log, ElementsAre("big:0", "small:0", "small:done", "big:1", "big:2", "big:done"));
}

TEST(ExecutorTest, RefusesWhenTheQueueIsFullAndSaysHowLongItIs) {
  Executor executor({.threads = 0, .max_queue = 2}, nullptr);
  std::vector<std::string> log;
  ASSERT_TRUE(executor.Submit(Logging("a", 1, log)).ok());
  ASSERT_TRUE(executor.Submit(Logging("b", 5, log)).ok());
  const absl::Status refused = executor.Submit(Logging("c", 1, log));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("2 calls wait, the limit is 2"));

  // A job leaves the queue when its last item is taken.
  ASSERT_TRUE(executor.RunOne());
  EXPECT_TRUE(executor.Submit(Logging("d", 1, log)).ok());
  while (executor.RunOne()) {
  }
  EXPECT_EQ(std::count(log.begin(), log.end(), "c:done"), 0);
  EXPECT_EQ(std::count(log.begin(), log.end(), "d:done"), 1);
}

TEST(ExecutorTest, PatientJobsWaitAndLeaveRoomForOthers) {
  Executor executor({.threads = 0, .max_queue = 4}, nullptr);
  std::vector<std::string> log;
  const auto submit = [&](const std::string& name, bool patient) {
    Job job = Logging(name, 1, log);
    job.patient = patient;
    return executor.Submit(std::move(job)).ok();
  };
  for (const char* const name : {"p1", "p2", "p3", "p4", "p5"}) EXPECT_TRUE(submit(name, true));
  EXPECT_EQ(executor.queue_length(), 2U);
  EXPECT_TRUE(submit("a", false) && submit("b", false));
  EXPECT_FALSE(submit("c", false)) << "the queue is full";
  EXPECT_TRUE(submit("p6", true));
  while (executor.RunOne()) {
  }
  EXPECT_THAT(log, ElementsAre("p1:0", "p1:done", "p2:0", "p2:done", "a:0", "a:done", "b:0", "b:done", "p3:0",
                               "p3:done", "p4:0", "p4:done", "p5:0", "p5:done", "p6:0", "p6:done"));
}

// As when many callers ask again as soon as they are answered.
TEST(ExecutorTest, PatientJobsGetOnHoweverFullTheQueueIsKept) {
  Executor executor({.threads = 0, .max_queue = 4}, nullptr);
  int others = 0, patient = 0;
  const auto submit = [&](int& runs, bool is_patient) {
    return executor.Submit({.patient = is_patient, .run = [&runs](std::size_t /*item*/) { ++runs; }, .done = [] {}});
  };
  const auto fill = [&] {
    while (submit(others, false).ok()) {
    }
  };
  fill();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit(patient, true).ok());
  for (int turn = 0; turn < 40; ++turn) {
    ASSERT_TRUE(executor.RunOne());
    fill();
  }
  EXPECT_EQ(patient, 3);
  EXPECT_EQ(others, 37);
}

TEST(ExecutorTest, RefusesWhatWouldBeTooMuchMemory) {
  prometheus::Gauge bytes;
  Executor executor({.threads = 0, .max_queue = 8, .max_bytes = 100}, nullptr, &bytes);
  std::vector<std::string> log;
  const auto submit = [&](std::int64_t size) {
    Job job = Logging("x", 2, log);
    job.bytes = size;
    return executor.Submit(std::move(job));
  };
  ASSERT_TRUE(submit(60).ok());
  const absl::Status refused = submit(41);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("41 bytes more than the 60 there are, the limit is 100"));
  ASSERT_TRUE(submit(40).ok());
  EXPECT_EQ(bytes.Value(), 100);
  // A job counts until it is done.
  ASSERT_TRUE(executor.RunOne());
  EXPECT_EQ(submit(1).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(executor.RunOne());
  EXPECT_EQ(bytes.Value(), 40);
  while (executor.RunOne()) {
  }
  EXPECT_EQ(bytes.Value(), 0);
  EXPECT_TRUE(submit(1000).ok()) << "alone, even a large one";
  executor.Drain();
}

TEST(ExecutorTest, WhatIsHeldCountsUntilItIsGone) {
  prometheus::Gauge bytes;
  Executor executor({.threads = 0, .max_queue = 8, .max_bytes = 100}, nullptr, &bytes);
  std::vector<std::string> log;
  const auto submit = [&] {
    Job job = Logging("x", 1, log);
    job.bytes = 50;
    return executor.Submit(std::move(job)).code();
  };
  std::shared_ptr<void> held = executor.Hold(60);
  const std::shared_ptr<void> more = executor.Hold(1);
  EXPECT_EQ(bytes.Value(), 61);
  EXPECT_EQ(submit(), absl::StatusCode::kResourceExhausted);
  held.reset();
  EXPECT_EQ(bytes.Value(), 1);
  EXPECT_EQ(submit(), absl::StatusCode::kOk);
  executor.Drain();
}

TEST(ExecutorTest, WhatADoneHoldsIsTakenOutOfItsJob) {
  prometheus::Gauge bytes;
  Executor executor({.threads = 0, .max_queue = 8, .max_bytes = 100}, nullptr, &bytes);
  std::vector<std::shared_ptr<void>> held;
  for (const auto& [size, in_done, after] : {std::tuple(40, 50, 40), std::tuple(50, 50, 50), std::tuple(70, 70, 70)}) {
    Job job;
    job.items = 1;
    job.bytes = 50;
    job.run = [](std::size_t) {};
    job.done = [&, size = size, in_done = in_done] {
      held.push_back(executor.Hold(size - 10));
      held.push_back(executor.Hold(10));
      EXPECT_EQ(bytes.Value(), in_done);
    };
    ASSERT_TRUE(executor.Submit(std::move(job)).ok());
    EXPECT_EQ(bytes.Value(), 50);
    EXPECT_TRUE(executor.RunOne());
    EXPECT_EQ(bytes.Value(), after);
    held.clear();
    EXPECT_EQ(bytes.Value(), 0);
  }
}

TEST(ExecutorTest, RefusesWhileDrainingAndFinishesWhatItAccepted) {
  Executor executor({.threads = 0, .max_queue = 8}, nullptr);
  std::vector<std::string> log;
  ASSERT_TRUE(executor.Submit(Logging("a", 2, log)).ok());
  executor.Drain();
  EXPECT_THAT(log, ElementsAre("a:0", "a:1", "a:done"));
  EXPECT_EQ(executor.Submit(Logging("late", 1, log)).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(log, ElementsAre("a:0", "a:1", "a:done"));
}

TEST(ExecutorTest, GaugeFollowsTheQueue) {
  prometheus::Gauge gauge;
  Executor executor({.threads = 0, .max_queue = 8}, &gauge);
  std::vector<std::string> log;
  ASSERT_TRUE(executor.Submit(Logging("a", 1, log)).ok());
  ASSERT_TRUE(executor.Submit(Logging("b", 2, log)).ok());
  EXPECT_EQ(gauge.Value(), 2);
  EXPECT_EQ(executor.queue_length(), 2U);
  executor.RunOne();
  EXPECT_EQ(gauge.Value(), 1);
  executor.RunOne();
  EXPECT_EQ(gauge.Value(), 1);  // one item of b is left
  executor.RunOne();
  EXPECT_EQ(gauge.Value(), 0);
}

TEST(ExecutorTest, ItemsOfOneJobRunOnSeveralWorkersAtOnce) {
  constexpr int kThreads = 3;
  Executor executor({.threads = kThreads, .max_queue = 1}, nullptr);
  auto* const barrier = new absl::Barrier(kThreads);  // deleted by the last one through
  absl::Notification done;
  // Each item waits until all three run: with fewer workers on the job this never ends.
  ASSERT_TRUE(executor
                  .Submit({.items = kThreads,
                           .run =
                               [barrier](std::size_t) {
                                 if (barrier->Block()) delete barrier;
                               },
                           .done = [&] { done.Notify(); }})
                  .ok());
  done.WaitForNotification();
}

TEST(ExecutorTest, NoLockIsHeldWhileAnItemRuns) {
  Executor executor({.threads = 1, .max_queue = 4}, nullptr);
  absl::Notification done;
  // Submitting from inside an item would deadlock otherwise.
  absl::Status inner;
  ASSERT_TRUE(executor
                  .Submit({.items = 1,
                           .run =
                               [&](std::size_t) {
                                 inner = executor.Submit(
                                     {.items = 1, .run = [](std::size_t) {}, .done = [&] { done.Notify(); }});
                               },
                           .done = [] {}})
                  .ok());
  done.WaitForNotification();
  EXPECT_TRUE(inner.ok()) << inner;
}

TEST(ExecutorTest, EveryItemOfEveryJobRunsOnce) {
  constexpr std::size_t kJobs = 200;
  constexpr std::size_t kItems = 7;
  std::vector<std::vector<std::atomic<int>>> runs;
  for (std::size_t job = 0; job < kJobs; ++job) runs.emplace_back(kItems);
  std::atomic<int> early_done = 0;
  absl::BlockingCounter done(kJobs);
  Executor executor({.threads = 4, .max_queue = kJobs}, nullptr);
  for (std::size_t job = 0; job < kJobs; ++job) {
    ASSERT_TRUE(executor
                    .Submit({.items = kItems,
                             .run = [&runs, job](std::size_t item) { runs[job][item].fetch_add(1); },
                             .done =
                                 [&, job] {
                                   for (const auto& count : runs[job]) early_done += count.load() == 1 ? 0 : 1;
                                   done.DecrementCount();
                                 }})
                    .ok());
  }
  done.Wait();
  EXPECT_EQ(early_done, 0);
}

TEST(ExecutorTest, DestructorFinishesAcceptedJobs) {
  std::atomic<int> finished = 0;
  {
    Executor executor({.threads = 2, .max_queue = 100}, nullptr);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(executor.Submit({.items = 1, .run = [](std::size_t) {}, .done = [&] { ++finished; }}).ok());
    }
  }
  EXPECT_EQ(finished, 100);
}

TEST(ExecutorTest, IdleWorkersJoinASharedLoop) {
  Executor executor({.threads = 2, .max_queue = 8}, nullptr);
  const std::thread::id caller = std::this_thread::get_id();
  // The workers may not have come to wait yet.
  for (bool helped = false; !helped;) {
    std::vector<std::atomic<int>> runs(50);
    std::atomic<int> by_others{0};
    executor.Share(runs.size(), [&](std::size_t i) {
      ++runs[i];
      if (std::this_thread::get_id() != caller) ++by_others;
      absl::SleepFor(absl::Microseconds(100));
    });
    for (const std::atomic<int>& count : runs) ASSERT_EQ(count, 1);
    helped = by_others > 0;
  }
}

TEST(ExecutorTest, ItemsHaveTheWorkersAsHelpers) {
  Executor executor({.threads = 1, .max_queue = 8}, nullptr);
  Helpers* helpers = nullptr;
  absl::Notification done;
  ASSERT_TRUE(
      executor.Submit({.run = [&](std::size_t) { helpers = Helpers::OfThisThread(); }, .done = [&] { done.Notify(); }})
          .ok());
  done.WaitForNotification();
  EXPECT_EQ(helpers, &executor);
}

TEST(ExecutorTest, AJobThatComesTakesTheHelpersAway) {
  Executor executor({.threads = 1, .max_queue = 8}, nullptr);
  const std::thread::id caller = std::this_thread::get_id();
  for (bool helped = false; !helped;) {
    std::atomic<int> by_helper{0};
    int by_helper_before_job = 0;
    absl::Notification ran;
    executor.Share(20, [&](std::size_t) {
      if (std::this_thread::get_id() == caller) {
        // Until the job has run, all but this item are the helper's, if it wants them.
        if (!ran.HasBeenNotified()) ran.WaitForNotificationWithTimeout(absl::Milliseconds(20));
      } else if (++by_helper == 1) {
        ASSERT_TRUE(
            executor
                .Submit({.run = [&](std::size_t) { by_helper_before_job = by_helper; }, .done = [&] { ran.Notify(); }})
                .ok());
      }
    });
    if (by_helper == 0) continue;  // it was not waiting yet
    helped = true;
    ran.WaitForNotification();
    EXPECT_EQ(by_helper_before_job, 1);
  }
}

// Loops one after the other, with nothing to do between them, and jobs from another thread meanwhile.
TEST(ExecutorTest, AttentionLosesNeitherLoopsNorJobs) {
  Executor executor({.threads = 2, .max_queue = 1000}, nullptr);
  std::atomic<int> items{0}, jobs{0};
  std::thread submitter([&] {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(executor.Submit({.run = [](std::size_t) {}, .done = [&] { ++jobs; }}).ok());
      absl::SleepFor(absl::Microseconds(50));
    }
  });
  for (int image = 0; image < 20; ++image) {
    const Helpers::Attention attention(&executor, 3);
    for (int layer = 0; layer < 20; ++layer) {
      std::vector<int> ran(16);
      executor.Share(ran.size(), [&](std::size_t i) {
        ++ran[i];
        ++items;
      });
      ASSERT_EQ(ran, std::vector<int>(16, 1));  // what helpers wrote is seen
    }
  }
  submitter.join();
  executor.Drain();
  EXPECT_EQ(items, 20 * 20 * 16);
  EXPECT_EQ(jobs, 200);
}

TEST(ExecutorTest, AttentionIsAHintThatAnyoneMayGive) {
  const Helpers::Attention nobody(nullptr, 3);
  Executor executor({.threads = 1, .max_queue = 8}, nullptr);
  const Helpers::Attention outer(&executor, 3), inner(&executor, 1);
  absl::Notification ran;
  ASSERT_TRUE(executor.Submit({.run = [](std::size_t) {}, .done = [&] { ran.Notify(); }}).ok());
  ran.WaitForNotification();
  absl::SleepFor(absl::Milliseconds(2));  // the worker has given up watching
  absl::Notification again;
  ASSERT_TRUE(executor.Submit({.run = [](std::size_t) {}, .done = [&] { again.Notify(); }}).ok());
  again.WaitForNotification();
}

TEST(ExecutorTest, WhatASharedLoopThrowsIsThrownToItsCaller) {
  Executor executor({.threads = 1, .max_queue = 8}, nullptr);
  const auto body = [](std::size_t i) {
    if (i == 7) throw std::runtime_error("no memory");
  };
  EXPECT_THROW(executor.Share(20, body), std::runtime_error);
}

// A job that notes the thread it runs on.
Job NotingThread(absl::Duration estimate, std::vector<std::thread::id>& threads, absl::Mutex& mu,
                 absl::BlockingCounter& done) {
  return {.estimate = estimate,
          .run =
              [&threads, &mu](std::size_t /*item*/) {
                const absl::MutexLock lock(&mu);
                threads.push_back(std::this_thread::get_id());
              },
          .done = [&done] { done.DecrementCount(); }};
}

// Returns once all workers of an executor sleep. One that only just begins takes what is there without being woken.
void AwaitSleep(Executor& executor, int workers) {
  std::atomic<int> missing = workers;
  absl::BlockingCounter done(1);
  ASSERT_TRUE(executor
                  .Submit({.items = static_cast<std::size_t>(workers),
                           .run =
                               [&missing](std::size_t /*item*/) {
                                 --missing;
                                 while (missing.load() > 0) std::this_thread::yield();
                               },
                           .done = [&done] { done.DecrementCount(); }})
                  .ok());
  done.Wait();
  // A worker does not let go of the lock between this and its sleep.
  while (!executor.idle()) std::this_thread::yield();
}

TEST(ExecutorTest, AShortJobIsLeftToTheThreadThatBroughtIt) {
  Executor executor({.threads = 2, .max_queue = 8}, nullptr);
  ASSERT_NO_FATAL_FAILURE(AwaitSleep(executor, 2));
  absl::Mutex mu;
  std::vector<std::thread::id> threads;
  Executor::Lender lender(executor);
  for (int i = 0; i < 10; ++i) {
    absl::BlockingCounter done(1);
    ASSERT_TRUE(executor.Submit(NotingThread(absl::Microseconds(20), threads, mu, done)).ok());
    EXPECT_TRUE(lender.Lend());
    EXPECT_FALSE(lender.Lend());
    done.Wait();
  }
  const absl::MutexLock lock(&mu);
  EXPECT_THAT(threads, ::testing::Each(std::this_thread::get_id()));
}

TEST(ExecutorTest, ALongJobIsNotLeftToTheThreadThatBroughtIt) {
  Executor executor({.threads = 1, .max_queue = 8}, nullptr);
  absl::Mutex mu;
  std::vector<std::thread::id> threads;
  Executor::Lender lender(executor);
  absl::BlockingCounter done(2);
  ASSERT_TRUE(executor.Submit(NotingThread(absl::Milliseconds(5), threads, mu, done)).ok());
  ASSERT_TRUE(executor.Submit(NotingThread(absl::InfiniteDuration(), threads, mu, done)).ok());
  done.Wait();  // without Lend()
  EXPECT_FALSE(lender.Lend());
  const absl::MutexLock lock(&mu);
  EXPECT_THAT(threads, ::testing::Not(::testing::Contains(std::this_thread::get_id())));
}

TEST(ExecutorTest, WorkersTakeWhatIsMoreThanAShortWhile) {
  Executor executor({.threads = 1, .max_queue = 64}, nullptr);
  absl::Mutex mu;
  std::vector<std::thread::id> threads;
  Executor::Lender lender(executor);
  constexpr int kJobs = 20;
  absl::BlockingCounter done(kJobs);
  for (int i = 0; i < kJobs; ++i) {
    ASSERT_TRUE(executor.Submit(NotingThread(absl::Microseconds(50), threads, mu, done)).ok());
  }
  done.Wait();  // without Lend(): a worker was woken for the fifth
  const absl::MutexLock lock(&mu);
  EXPECT_EQ(threads.size(), std::size_t{kJobs});
}

TEST(ExecutorTest, ALenderTakesAWorkersPlace) {
  Executor executor({.threads = 1, .max_queue = 8}, nullptr);
  std::atomic<int> running{0}, most{0};
  absl::BlockingCounter done(200);
  std::vector<std::thread> lenders;
  for (int t = 0; t < 2; ++t) {
    lenders.emplace_back([&] {
      Executor::Lender lender(executor);
      for (int i = 0; i < 100; ++i) {
        Job job{.estimate = absl::Microseconds(30),
                .run =
                    [&](std::size_t /*item*/) {
                      const int now = ++running;
                      if (now > most.load()) most.store(now);
                      std::this_thread::yield();
                      --running;
                    },
                .done = [&done] { done.DecrementCount(); }};
        while (!executor.Submit(job).ok()) lender.Lend();
        while (lender.Lend()) {
        }
      }
    });
  }
  for (std::thread& lender : lenders) lender.join();
  done.Wait();
  EXPECT_EQ(most.load(), 1) << "as many at a time as there are workers";
}

TEST(ExecutorTest, ShortItemsOfAJobAreNotForALender) {
  Executor executor({.threads = 1, .max_queue = 8}, nullptr);
  absl::Mutex mu;
  std::vector<std::thread::id> threads;
  Executor::Lender lender(executor);
  absl::BlockingCounter done(1);
  Job job = NotingThread(absl::Microseconds(20), threads, mu, done);
  job.items = 20;
  ASSERT_TRUE(executor.Submit(std::move(job)).ok());
  EXPECT_FALSE(lender.Lend());
  done.Wait();
  const absl::MutexLock lock(&mu);
  EXPECT_EQ(threads.size(), 20U);
  EXPECT_THAT(threads, ::testing::Not(::testing::Contains(std::this_thread::get_id())));
}

TEST(ExecutorTest, TheBacklogIsTheWaitingWorkOfAWorker) {
  Executor executor({.threads = 0, .max_queue = 8}, nullptr);
  EXPECT_EQ(executor.backlog(), absl::ZeroDuration());
  std::vector<std::string> log;
  Job job = Logging("a", 10, log);
  job.estimate = absl::Microseconds(150);
  ASSERT_TRUE(executor.Submit(std::move(job)).ok());
  EXPECT_EQ(executor.backlog(), absl::Microseconds(1500));
  ASSERT_TRUE(executor.RunOne());
  EXPECT_EQ(executor.backlog(), absl::Microseconds(1350));
  executor.Drain();
  EXPECT_EQ(executor.backlog(), absl::ZeroDuration());
}

TEST(ExecutorTest, OnlyALongQueueThatIsFullIsOverload) {
  std::vector<std::string> log;
  Executor short_queue({.threads = 0, .max_queue = 1}, nullptr);
  EXPECT_FALSE(short_queue.overloaded());
  ASSERT_TRUE(short_queue.Submit(Logging("a", 1, log)).ok());
  EXPECT_TRUE(short_queue.overloaded()) << "without workers any queue is long";
  ASSERT_TRUE(short_queue.RunOne());
  EXPECT_FALSE(short_queue.overloaded());
  for (const std::size_t max_queue : {std::size_t{4}, std::size_t{64}}) {
    Executor executor({.threads = 1, .max_queue = max_queue}, nullptr);
    absl::Notification begun, go_on;
    ASSERT_TRUE(executor
                    .Submit({.run =
                                 [&](std::size_t /*item*/) {
                                   begun.Notify();
                                   go_on.WaitForNotification();
                                 },
                             .done = [] {}})
                    .ok());
    begun.WaitForNotification();
    while (executor.Submit(Logging("b", 1, log)).ok()) {
    }
    EXPECT_EQ(executor.overloaded(), max_queue == 64);
    go_on.Notify();
    executor.Drain();
    EXPECT_FALSE(executor.overloaded());
  }
}

TEST(ExecutorTest, DrainingWaitsForALender) {
  Executor executor({.threads = 1, .max_queue = 8}, nullptr);
  absl::Notification begun, go_on;
  std::atomic<bool> done{false};
  std::thread thread([&] {
    Executor::Lender lender(executor);
    EXPECT_TRUE(executor
                    .Submit({.estimate = absl::Microseconds(1),
                             .run =
                                 [&](std::size_t /*item*/) {
                                   begun.Notify();
                                   go_on.WaitForNotification();
                                 },
                             .done = [&] { done.store(true); }})
                    .ok());
    lender.Lend();
  });
  begun.WaitForNotification();
  std::thread drain([&] {
    executor.Drain();
    EXPECT_TRUE(done.load());
  });
  absl::SleepFor(absl::Milliseconds(20));
  go_on.Notify();
  drain.join();
  thread.join();
}

}  // namespace
}  // namespace ckn
