#include "server/serving/repeat_limit.h"

#include <optional>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(RepeatLimitTest, OneInTenSecondsWhichCountsThoseLeftOut) {
  RepeatLimit limit;
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(limit.Admit(start), "");
  EXPECT_EQ(limit.Admit(start), std::nullopt);
  EXPECT_EQ(limit.Admit(start + absl::Milliseconds(9999)), std::nullopt);
  EXPECT_EQ(limit.Admit(start + absl::Seconds(10)), " (and 2 more like it since the last such line)");
  EXPECT_EQ(limit.Admit(start + absl::Seconds(15)), std::nullopt);
  EXPECT_EQ(limit.Admit(start + absl::Seconds(60)), " (and 1 more like it since the last such line)");
  EXPECT_EQ(limit.Admit(start + absl::Seconds(70)), "");
  EXPECT_EQ(limit.Admit(start), "") << "the clock was set back";
}

}  // namespace
}  // namespace ckn
