#include "server/serving/access_log.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using Json = nlohmann::json;

AccessRecord SomeRecord() {
  return {.end = absl::FromUnixMillis(1'700'000'000'250),
          .method = Method::kModelInfer,
          .code = absl::StatusCode::kInvalidArgument,
          .request_id = "r-1",
          .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          .peer = "ipv4:127.0.0.1:5",
          .model = "mnist",
          .version = "3",
          .images = 2,
          .request_bytes = 1234,
          .total = 0.0125,
          .queue = 0.001,
          .decode = 0.00025,
          .compute = 0.0101};
}

TEST(AccessLogTest, TextHasAPairForEachFact) {
  EXPECT_EQ(AccessText(SomeRecord()),
            "time=2023-11-14T22:13:20.250Z method=ModelInfer status=INVALID_ARGUMENT model=\"mnist\" version=\"3\" "
            "images=2 bytes=1234 total_ms=12.500 queue_ms=1.000 decode_ms=0.250 compute_ms=10.100 id=\"r-1\" "
            "traceparent=\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\" peer=\"ipv4:127.0.0.1:5\"");
}

TEST(AccessLogTest, JsonIsOneObjectOnOneLine) {
  const std::string line = AccessJson(SomeRecord());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json json = Json::parse(line);
  EXPECT_EQ(json["time"], "2023-11-14T22:13:20.250Z");
  EXPECT_EQ(json["method"], "ModelInfer");
  EXPECT_EQ(json["status"], "INVALID_ARGUMENT");
  EXPECT_EQ(json["model"], "mnist");
  EXPECT_EQ(json["version"], "3");
  EXPECT_EQ(json["images"], 2);
  EXPECT_EQ(json["bytes"], 1234);
  EXPECT_EQ(json["total_ms"], 12.5);
  EXPECT_EQ(json["decode_ms"], 0.25);
  EXPECT_EQ(json["id"], "r-1");
}

TEST(AccessLogTest, WhatIsNotKnownIsLeftOut) {
  AccessRecord record;
  record.method = Method::kListModels;
  const Json json = Json::parse(AccessJson(record));
  for (const char* const key : {"model", "version", "id", "traceparent", "peer"}) EXPECT_FALSE(json.contains(key));
  EXPECT_EQ(AccessText(record).find("id="), std::string::npos);
}

TEST(AccessLogTest, AModelsNameCannotForgeALine) {
  AccessRecord record = SomeRecord();
  record.model = "a\nb\xff\"c";
  EXPECT_EQ(AccessText(record).find('\n'), std::string::npos);
  EXPECT_EQ(AccessJson(record).find('\n'), std::string::npos);
  EXPECT_TRUE(Json::accept(AccessJson(record)));
}

TEST(AccessLogTest, OnlySlowCallsWhenAskedFor) {
  std::vector<std::string> lines;
  const AccessLog log(AccessLog::Format::kText, absl::Milliseconds(10),
                      [&lines](const std::string& line) { lines.push_back(line); });
  AccessRecord record = SomeRecord();
  record.total = 0.0099;
  log.Record(record);
  EXPECT_TRUE(lines.empty());
  record.total = 0.01;
  log.Record(record);
  EXPECT_EQ(lines.size(), 1U);
}

}  // namespace
}  // namespace ckn
