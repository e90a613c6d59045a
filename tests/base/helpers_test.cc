#include "server/base/helpers.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(SharedLoopTest, EachItemRunsOnceHoweverManyRunTheLoop) {
  std::vector<std::atomic<int>> runs(1000);
  const auto body = [&](std::size_t i) { ++runs[i]; };
  SharedLoop loop(runs.size(), body);
  EXPECT_FALSE(loop.exhausted());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { loop.Run(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(loop.exhausted());
  loop.RethrowError();
  for (const std::atomic<int>& count : runs) ASSERT_EQ(count, 1);
}

TEST(SharedLoopTest, WhoIsToLeaveTakesNoFurtherItem) {
  std::atomic<bool> leave{false};
  int runs = 0;
  const auto body = [&](std::size_t) { leave = ++runs == 3; };
  SharedLoop loop(10, body);
  loop.Run(&leave);
  EXPECT_EQ(runs, 3);
  EXPECT_FALSE(loop.exhausted());
  leave = false;
  loop.Run();
  EXPECT_EQ(runs, 10);
}

TEST(SharedLoopTest, WhatABodyThrowsEndsTheLoopAndIsThrownAfterIt) {
  int runs = 0;
  const auto body = [&](std::size_t) {
    if (++runs == 4) throw std::runtime_error("no memory");
  };
  SharedLoop loop(10, body);
  loop.Run();
  EXPECT_EQ(runs, 4);
  EXPECT_THROW(loop.RethrowError(), std::runtime_error);
}

class NoHelpers : public Helpers {
 public:
  void Share(std::size_t count, absl::FunctionRef<void(std::size_t i)> body) override {
    for (std::size_t i = 0; i < count; ++i) body(i);
  }
};

TEST(HelpersTest, BelongToAThreadWhileTheirScopeLives) {
  NoHelpers outer, inner;
  EXPECT_EQ(Helpers::OfThisThread(), nullptr);
  {
    const Helpers::Scope scope(&outer);
    EXPECT_EQ(Helpers::OfThisThread(), &outer);
    {
      const Helpers::Scope nested(&inner);
      EXPECT_EQ(Helpers::OfThisThread(), &inner);
    }
    EXPECT_EQ(Helpers::OfThisThread(), &outer);
    std::thread([] { EXPECT_EQ(Helpers::OfThisThread(), nullptr); }).join();
  }
  EXPECT_EQ(Helpers::OfThisThread(), nullptr);
}

}  // namespace
}  // namespace ckn
