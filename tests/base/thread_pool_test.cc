#include "server/base/thread_pool.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(ThreadPoolTest, CallsEachIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::size_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> calls(count);
      pool.ParallelFor(count, [&](std::size_t i, int) { ++calls[i]; });
      for (const std::atomic<int>& call : calls) EXPECT_EQ(call, 1);
    }
  }
}

TEST(ThreadPoolTest, NeverRunsTwoCallsWithOneWorkerNumberAtATime) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(pool.threads());
  std::atomic<int> clashes{0};
  pool.ParallelFor(2000, [&](std::size_t, int worker) {
    if (inside.at(worker).fetch_add(1) != 0) ++clashes;
    inside[worker].fetch_sub(1);
  });
  EXPECT_EQ(clashes, 0);
}

TEST(ThreadPoolTest, RethrowsAnExceptionAndStaysUsable) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.ParallelFor(100,
                                [](std::size_t i, int) {
                                  if (i == 57) throw std::runtime_error("57");
                                }),
               std::runtime_error);
  std::atomic<int> sum{0};
  pool.ParallelFor(10, [&](std::size_t i, int) { sum += static_cast<int>(i); });
  EXPECT_EQ(sum, 45);
}

}  // namespace
}  // namespace ckn
