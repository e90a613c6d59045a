#include "server/serving/metrics.h"

#include <ctime>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/image/decoder_versions.h"
#include "tests/testing/prometheus_text.h"

namespace ckn {
namespace {

using ::ckn::testing::ParsePrometheusText;
using ::testing::HasSubstr;

TEST(MetricsTest, AllChildrenExistBeforeTheFirstCall) {
  Metrics metrics("1.2.3");
  metrics.SetModels({"mnist"});
  auto samples = ParsePrometheusText(metrics.Text());
  for (const char* method : {"Classify", "Encode", "ListModels"}) {
    for (int code = 0; code <= 16; ++code) {
      const std::string name =
          absl::StrCat("ckn_requests_total{code=\"", absl::StatusCodeToString(static_cast<absl::StatusCode>(code)),
                       "\",method=\"", method, "\"}");
      EXPECT_EQ(samples.count(name), 1U) << name;
    }
    EXPECT_EQ(samples.count(absl::StrCat("ckn_request_duration_seconds_count{method=\"", method, "\"}")), 1U);
  }
  for (const char* stage : {"decode", "queue", "compute"}) {
    EXPECT_EQ(samples.count(absl::StrCat("ckn_stage_duration_seconds_count{stage=\"", stage, "\"}")), 1U) << stage;
  }
  for (const char* model : {"mnist", "(unknown)"}) {
    for (const char* outcome : {"ok", "invalid", "expired", "error"}) {
      EXPECT_EQ(samples.count(absl::StrCat("ckn_images_total{model=\"", model, "\",outcome=\"", outcome, "\"}")), 1U);
    }
  }
  EXPECT_EQ(samples.at("ckn_build_info{version=\"1.2.3\"}"), 1);
  EXPECT_EQ(samples.at("ckn_models_loaded"), 1);
  EXPECT_EQ(samples.at("ckn_queue_length"), 0);
  EXPECT_EQ(samples.at("ckn_in_flight_requests"), 0);
  EXPECT_EQ(samples.at("ckn_ready"), 0);
}

TEST(MetricsTest, TellsTheDecoders) {
  const auto samples = ParsePrometheusText(Metrics("1").Text());
  for (const auto& [library, version] : DecoderVersions()) {
    const std::string name =
        absl::StrCat("ckn_image_decoder_info{library=\"", library, "\",version=\"", version, "\"}");
    EXPECT_EQ(samples.count(name), 1U) << name;
  }
}

TEST(MetricsTest, TellsOfTheProcess) {
  const Metrics metrics("1");
  const auto samples = ParsePrometheusText(metrics.Text());
  EXPECT_NEAR(samples.at("process_start_time_seconds"), static_cast<double>(std::time(nullptr)), 60);
  EXPECT_GT(samples.at("process_resident_memory_bytes"), 1 << 20);
  const double begun = samples.at("process_cpu_seconds_total");
  EXPECT_GT(begun, 0);
  EXPECT_GE(ParsePrometheusText(metrics.Text()).at("process_cpu_seconds_total"), begun);
}

TEST(MetricsTest, CountsWhatItIsTold) {
  Metrics metrics("1");
  metrics.SetModels({"mnist"});
  metrics.CountRequest(Method::kClassify, absl::StatusCode::kOk, 0.0004);
  metrics.CountRequest(Method::kClassify, absl::StatusCode::kOk, 0.3);
  metrics.CountRequest(Method::kEncode, absl::StatusCode::kNotFound, 0.0004);
  metrics.ObserveStage(Stage::kCompute, 0.006);
  metrics.CountImages("mnist", ImageOutcome::kOk, 5);
  metrics.CountImages("mnist", ImageOutcome::kInvalid, 2);

  auto samples = ParsePrometheusText(metrics.Text());
  EXPECT_EQ(samples.at(R"(ckn_requests_total{code="OK",method="Classify"})"), 2);
  EXPECT_EQ(samples.at(R"(ckn_requests_total{code="NOT_FOUND",method="Encode"})"), 1);
  EXPECT_EQ(samples.at("ckn_request_duration_seconds_count{method=\"Classify\"}"), 2);
  EXPECT_DOUBLE_EQ(samples.at("ckn_request_duration_seconds_sum{method=\"Classify\"}"), 0.3004);
  EXPECT_EQ(samples.at("ckn_request_duration_seconds_count{method=\"Encode\"}"), 0) << "failing is fast";
  EXPECT_EQ(samples.at("ckn_stage_duration_seconds_count{stage=\"compute\"}"), 1);
  EXPECT_EQ(samples.at(R"(ckn_images_total{model="mnist",outcome="ok"})"), 5);
  EXPECT_EQ(samples.at(R"(ckn_images_total{model="mnist",outcome="invalid"})"), 2);
}

TEST(MetricsTest, HistogramsResolveTenthsOfMilliseconds) {
  Metrics metrics("1");
  const auto below = [&](const char* bound) {
    return ParsePrometheusText(metrics.Text())
        .at(absl::StrCat(R"(ckn_request_duration_seconds_bucket{method="Classify",le=")", bound, "\"}"));
  };
  metrics.CountRequest(Method::kClassify, absl::StatusCode::kOk, 0.00012);
  EXPECT_EQ(below("0.0001"), 0);
  EXPECT_EQ(below("0.00015"), 1);
  metrics.CountRequest(Method::kClassify, absl::StatusCode::kOk, 0.49);
  EXPECT_EQ(below("0.3"), 1);
  EXPECT_EQ(below("0.5"), 2);
}

TEST(MetricsTest, ModelsThatAreNotLoadedShareOneLabelValue) {
  Metrics metrics("1");
  metrics.SetModels({"mnist"});
  for (int i = 0; i < 100; ++i) metrics.CountImages(absl::StrCat("model ", i), ImageOutcome::kInvalid, 1);
  metrics.CountImages("", ImageOutcome::kInvalid, 1);
  const std::string text = metrics.Text();
  EXPECT_EQ(ParsePrometheusText(text).at("ckn_images_total{model=\"(unknown)\",outcome=\"invalid\"}"), 101);
  EXPECT_THAT(text, ::testing::Not(HasSubstr("model 7")));
}

TEST(MetricsTest, ReplacedModelsKeepTheirCounts) {
  Metrics metrics("1");
  metrics.SetModels({"a", "b"});
  metrics.CountImages("a", ImageOutcome::kOk, 3);
  metrics.SetModels({"b"});
  metrics.CountImages("a", ImageOutcome::kOk, 10);  // of a call that began before
  metrics.SetModels({"a"});
  metrics.CountImages("a", ImageOutcome::kOk, 1);
  auto samples = ParsePrometheusText(metrics.Text());
  EXPECT_EQ(samples.at(R"(ckn_images_total{model="a",outcome="ok"})"), 14);
  EXPECT_EQ(samples.at("ckn_images_total{model=\"(unknown)\",outcome=\"ok\"}"), 0);
  EXPECT_EQ(samples.at("ckn_models_loaded"), 1);
}

TEST(MetricsTest, LabelValuesAreEscaped) {
  Metrics metrics("1\"\n\\");
  EXPECT_THAT(metrics.Text(), HasSubstr("ckn_build_info{version=\"1\\\"\\n\\\\\"} 1"));
}

}  // namespace
}  // namespace ckn
