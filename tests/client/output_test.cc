#include "client/output.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ckn {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::json;

BulkResult<v1::Classification> SomeClassifications() {
  BulkResult<v1::Classification> bulk{.model = "mnist", .files = {}};
  for (const char* file : {"a.png", "longer-name.png"}) {
    v1::Classification result;
    for (int k = 0; k < 2; ++k) {
      v1::ClassScore* const entry = result.add_classes();
      entry->set_index(7 - k);
      entry->set_label(k == 0 ? "seven" : "six");
      entry->set_score(1.5F - 2.0F * static_cast<float>(k));
    }
    bulk.files.push_back({.file = file, .status = {}, .result = result});
  }
  bulk.files.insert(bulk.files.begin() + 1,
                    {.file = "bad\n.png", .status = absl::InvalidArgumentError("truncated"), .result = {}});
  return bulk;
}

TEST(OutputTest, ClassifyTableHasAlignedColumnsAndNoFailures) {
  EXPECT_EQ(ClassifyTable(SomeClassifications()),
            "a.png            seven  +1.5000  six  -0.5000\n"
            "longer-name.png  seven  +1.5000  six  -0.5000\n");
}

TEST(OutputTest, ProbabilitiesAreShownWhereTheModelHasThem) {
  BulkResult<v1::Classification> bulk = SomeClassifications();
  bulk.files[0].result.mutable_classes(0)->set_probability(0.9876F);
  bulk.files[0].result.mutable_classes(1)->set_probability(0.0124F);
  EXPECT_THAT(ClassifyTable(bulk),
              ::testing::HasSubstr("a.png            seven  +1.5000  98.76 %  six      -0.5000  1.24 %"));
  const Json json = Json::parse(ClassifyJson(bulk));
  EXPECT_NEAR(json["results"][0]["classes"][0]["probability"], 0.9876, 1e-6);
  EXPECT_FALSE(json["results"][2]["classes"][0].contains("probability"));
}

TEST(OutputTest, NoveltyIsShownWhereTheModelHasIt) {
  BulkResult<v1::Classification> bulk = SomeClassifications();
  bulk.files[0].result.mutable_novelty()->set_residual(0.25F);
  bulk.files[0].result.mutable_novelty()->set_rank(0.9876F);
  EXPECT_THAT(ClassifyTable(bulk),
              ::testing::StartsWith("a.png            seven  +1.5000  six  -0.5000  novelty 0.988\n"));
  const Json json = Json::parse(ClassifyJson(bulk));
  EXPECT_EQ(json["results"][0]["novelty"]["residual"], 0.25);
  EXPECT_NEAR(json["results"][0]["novelty"]["rank"], 0.9876, 1e-6);
  EXPECT_FALSE(json["results"][2].contains("novelty"));
}

TEST(OutputTest, FailureLinesNameFileCodeAndReason) {
  EXPECT_THAT(FailureLines(SomeClassifications()), ElementsAre("bad\\x0a.png: INVALID_ARGUMENT: truncated"));
}

TEST(OutputTest, WhatEndedTheWorkIsToldOnce) {
  BulkResult<v1::Classification> bulk = SomeClassifications();
  bulk.call = absl::UnavailableError("no server");
  const std::size_t own = FailureLines(SomeClassifications()).size();
  for (const char* const name : {"x.png", "y.png"})
    bulk.files.push_back({.file = name, .status = bulk.call, .result = {}});
  const std::vector<std::string> lines = FailureLines(bulk);
  ASSERT_EQ(lines.size(), own + 1);
  EXPECT_EQ(lines.back(), "UNAVAILABLE: no server (2 images)");
}

TEST(OutputTest, ClassifyJsonHasEveryFile) {
  const Json json = Json::parse(ClassifyJson(SomeClassifications()));
  EXPECT_EQ(json["model"], "mnist");
  ASSERT_EQ(json["results"].size(), 3U);
  EXPECT_EQ(json["results"][0]["file"], "a.png");
  EXPECT_EQ(json["results"][0]["classes"][0], Json({{"index", 7}, {"label", "seven"}, {"score", 1.5}}));
  EXPECT_EQ(json["results"][1],
            Json({{"file", "bad\n.png"}, {"error", {{"code", "INVALID_ARGUMENT"}, {"message", "truncated"}}}}));
}

TEST(OutputTest, JsonSurvivesFileNamesThatAreNotUtf8) {
  BulkResult<v1::Classification> bulk{.model = "m", .files = {{.file = "\xff.png", .status = {}, .result = {}}}};
  EXPECT_EQ(Json::parse(ClassifyJson(bulk))["results"][0]["file"], "\uFFFD.png");
}

TEST(OutputTest, EncodeJsonKeepsEveryFloatExactly) {
  BulkResult<v1::Features> bulk{.model = "m", .files = {{.file = "a", .status = {}, .result = {}}}};
  const std::vector<float> values = {0.1F, -1e-30F, 3.4e38F, 0};
  bulk.files[0].result.mutable_values()->Add(values.begin(), values.end());
  const Json json = Json::parse(EncodeJson(bulk));
  EXPECT_EQ(json["results"][0]["features"].get<std::vector<float>>(), values);
}

TEST(OutputTest, FeatureArrayKeepsRowsInPlaceWhenAFileFails) {
  BulkResult<v1::Features> bulk;
  for (const float value : {1.0F, 2.0F, 3.0F}) {
    v1::Features features;
    features.add_values(value);
    features.add_values(-value);
    bulk.files.push_back({.file = "f", .status = {}, .result = features});
  }
  bulk.files[1] = {.file = "bad", .status = absl::InvalidArgumentError("x"), .result = {}};
  const auto array = ToFeatureArray(bulk);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->shape, ElementsAre(3, 2));
  EXPECT_THAT(array->values, ElementsAre(1, -1, ::testing::IsNan(), ::testing::IsNan(), 3, -3));
}

TEST(OutputTest, FeatureArrayRefusesRowsOfDifferentLengths) {
  BulkResult<v1::Features> bulk{
      .model = "m", .files = {{.file = "a", .status = {}, .result = {}}, {.file = "b", .status = {}, .result = {}}}};
  bulk.files[0].result.add_values(1);
  EXPECT_EQ(ToFeatureArray(bulk).status().code(), absl::StatusCode::kInternal);
}

TEST(OutputTest, FeatureArrayOfFailuresOnlyIsTheFirstFailure) {
  BulkResult<v1::Features> bulk{.model = "",
                                .files = {{.file = "a", .status = absl::NotFoundError("x"), .result = {}}}};
  EXPECT_EQ(ToFeatureArray(bulk).status(), absl::NotFoundError("x"));
}

TEST(OutputTest, ModelsJsonHasNullForAnUnknownTestError) {
  v1::ListModelsResponse response;
  v1::ModelInfo* const model = response.add_models();
  model->set_name("tiny");
  model->set_version("3");
  model->set_height(8);
  model->set_width(9);
  model->set_channels(1);
  model->set_features(36);
  model->add_class_names("zero");
  model->set_validation_error_percent(1.25);
  Json json = Json::parse(ModelsJson(response));
  EXPECT_EQ(json["models"][0]["name"], "tiny");
  EXPECT_EQ(json["models"][0]["version"], "3");
  EXPECT_EQ(json["models"][0]["classes"], Json::array({"zero"}));
  EXPECT_TRUE(json["models"][0]["test_error_percent"].is_null());
  model->set_test_error_percent(0);
  json = Json::parse(ModelsJson(response));
  EXPECT_EQ(json["models"][0]["test_error_percent"], 0);
  EXPECT_THAT(ModelsTable(response), ::testing::HasSubstr("tiny   3        8x9x1"));
}

}  // namespace
}  // namespace ckn
