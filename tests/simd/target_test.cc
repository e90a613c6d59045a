#include "server/simd/target.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(SimdTargetTest, AnUnknownNameListsWhatThereIs) {
  const std::vector<std::string> targets = SimdTargets();
  ASSERT_FALSE(targets.empty());
  const absl::Status status = SelectSimdTarget("avx1024");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("got \"avx1024\""), testing::HasSubstr(targets.back())));
  EXPECT_FALSE(SelectSimdTarget("").ok());
}

}  // namespace
}  // namespace ckn
