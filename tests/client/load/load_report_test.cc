#include "client/load/load_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ckn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

LoadPlan SomePlan() { return {.server = "host:1", .client = {}, .request = {.batch = 2}, .in_flight = 4}; }

LoadResult SomeResult() {
  LoadResult result;
  result.seconds = 2;
  result.cpu_seconds = 0.5;
  for (int i = 1; i <= 100; ++i) result.calls[absl::StatusCode::kOk].latency.Record(i * 1'000'000);
  result.calls[absl::StatusCode::kResourceExhausted].latency.Record(500'000);
  result.calls[absl::StatusCode::kResourceExhausted].message = "full\n";
  result.images[0] = 199;
  result.images[3] = 1;
  return result;
}

TEST(LoadReportTest, TableHasALineForEachCodeAndTheFirstMessage) {
  const std::string table = LoadTable(SomePlan(), SomeResult());
  EXPECT_THAT(table, AllOf(HasSubstr("classify over ckn.v1, 2 images a call, closed loop, 4 in flight, 1 connection"),
                           HasSubstr("\nOK                          100       50.0       99.5 "),
                           HasSubstr("\nRESOURCE_EXHAUSTED            1        0.5          -     0.500"),
                           HasSubstr("RESOURCE_EXHAUSTED, the first: full\\x0a\n"), HasSubstr("0.25 CPUs")));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("late")));
}

TEST(LoadReportTest, JsonHasTheWholeHistogram) {
  LoadPlan plan = SomePlan();
  plan.rate = 60;
  LoadResult result = SomeResult();
  result.lateness.Record(1000);
  const Json json = Json::parse(LoadJson(plan, result));
  EXPECT_EQ(json["loop"], "open");
  EXPECT_EQ(json["rate"], 60);
  EXPECT_EQ(json["calls"], 101);
  EXPECT_EQ(json["calls_per_second"], 50);
  EXPECT_EQ(json["images_per_second"], 99.5);
  EXPECT_EQ(json["images"], Json({{"OK", 199}, {"INVALID_ARGUMENT", 1}}));
  EXPECT_EQ(json["late"]["max_ms"], 0.001);
  const Json& ok = json["codes"]["OK"];
  EXPECT_EQ(ok["calls"], 100);
  EXPECT_EQ(ok["max_ms"], 100);
  EXPECT_NEAR(ok["p50_ms"], 50, 50.0 / 128);
  std::int64_t calls = 0;
  for (const Json& bucket : ok["histogram_ns"]) {
    EXPECT_LE(bucket[0], bucket[1]);
    calls += bucket[2].get<std::int64_t>();
  }
  EXPECT_EQ(calls, 100);
}

TEST(LoadReportTest, FailuresAreToldUnlessTolerated) {
  const LoadResult result = SomeResult();
  EXPECT_EQ(LoadFailures(result, {}),
            "1 of 101 calls failed: 1 RESOURCE_EXHAUSTED; 1 of 200 images of good calls failed: 1 INVALID_ARGUMENT");
  EXPECT_EQ(LoadFailures(result, {absl::StatusCode::kInvalidArgument}), "1 of 101 calls failed: 1 RESOURCE_EXHAUSTED");
  EXPECT_EQ(LoadFailures(result, {absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted}), "");
}

}  // namespace
}  // namespace ckn
