#include "server/serving/failure_log.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/serving/fakes.h"
#include "tests/testing/captured_log.h"

namespace ckn {
namespace {

using ::ckn::testing::CapturedLog;
using ::ckn::testing::FakeClock;

class FailureLogTest : public ::testing::Test {
 protected:
  std::string TakeLines() { return lines_.Take(); }

  FakeClock clock_;
  FailureLog log_{clock_};

 private:
  CapturedLog lines_;
};

TEST_F(FailureLogTest, LevelTellsWhoseFaultItIs) {
  log_.Record(Method::kClassify, absl::InternalError("a"));
  log_.Record(Method::kClassify, absl::ResourceExhaustedError("b"));
  log_.Record(Method::kClassify, absl::InvalidArgumentError("c"));
  log_.Record(Method::kClassify, absl::OkStatus());
  EXPECT_EQ(TakeLines(),
            "error Classify failed: INTERNAL: a\n"
            "warning Classify failed: RESOURCE_EXHAUSTED: b\n"
            "info Classify failed: INVALID_ARGUMENT: c\n");
}

TEST_F(FailureLogTest, RepeatsAreCountedNotLogged) {
  for (int i = 0; i < 1000; ++i) log_.Record(Method::kEncode, absl::NotFoundError("x"));
  EXPECT_EQ(TakeLines(), "info Encode failed: NOT_FOUND: x\n");
  clock_.Advance(absl::Seconds(10));
  log_.Record(Method::kEncode, absl::NotFoundError("y"));
  EXPECT_EQ(TakeLines(), "info Encode failed: NOT_FOUND: y (and 999 more like it since the last such line)\n");
  clock_.Advance(absl::Seconds(10));
  log_.Record(Method::kEncode, absl::NotFoundError("z"));
  EXPECT_EQ(TakeLines(), "info Encode failed: NOT_FOUND: z\n");
}

TEST_F(FailureLogTest, EachMethodAndCodeHasItsOwnLine) {
  log_.Record(Method::kEncode, absl::NotFoundError("x"));
  log_.Record(Method::kClassify, absl::NotFoundError("x"));
  log_.Record(Method::kClassify, absl::CancelledError("x"));
  const std::string lines = TakeLines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
}

TEST_F(FailureLogTest, MessageCannotForgeALine) {
  log_.Record(Method::kClassify, absl::InvalidArgumentError("a\nerror forged \x1b[31m"));
  EXPECT_EQ(TakeLines(), "info Classify failed: INVALID_ARGUMENT: a\\x0aerror forged \\x1b[31m\n");
}

}  // namespace
}  // namespace ckn
