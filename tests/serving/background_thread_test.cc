#include "server/serving/background_thread.h"

#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(BackgroundThreadTest, RunsTasksInOrderAndFinishesThemAtTheEnd) {
  std::vector<int> ran;
  {
    BackgroundThread thread(absl::InfiniteDuration(), [] {});
    absl::Notification go;
    thread.Run([&] { go.WaitForNotification(); });
    for (int i = 0; i < 10; ++i) thread.Run([&ran, i] { ran.push_back(i); });
    go.Notify();
  }
  EXPECT_THAT(ran, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(BackgroundThreadTest, GoesOnAfterATaskThatThrows) {
  absl::Notification ran;
  BackgroundThread thread(absl::InfiniteDuration(), [] {});
  thread.Run([] { throw std::bad_alloc(); });
  thread.Run([&ran] { ran.Notify(); });
  ran.WaitForNotification();
}

TEST(BackgroundThreadTest, RepeatsByItself) {
  std::atomic<int> times{0};
  absl::Notification thrice;
  const BackgroundThread thread(absl::Milliseconds(1), [&] {
    if (times.fetch_add(1) == 2) thrice.Notify();
  });
  thrice.WaitForNotification();
}

TEST(BackgroundThreadTest, WithoutAnIntervalNothingIsRepeated) {
  int repeated = 0;
  {
    BackgroundThread(absl::InfiniteDuration(), [&] { ++repeated; }).Run([] {});
  }
  EXPECT_EQ(repeated, 0);
}

}  // namespace
}  // namespace ckn
