#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/serving/inference_core.h"
#include "server/serving/model_loader.h"
#include "server/store/model_file.h"
#include "tests/serving/fakes.h"
#include "tests/testing/prometheus_text.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn::testing {

// A core with hand-driven workers, which serves one tiny model.
class CoreTest : public ::testing::Test {
 protected:
  CoreTest() { Load({"tiny"}); }

  void Load(const std::vector<std::string>& names) {
    std::vector<Model> models;
    models.reserve(names.size());
    for (const std::string& name : names) models.push_back(TinyModel({.name = name}));
    Serve(models);
  }

  void Serve(const std::vector<Model>& served) {
    const TempDir folder;
    for (const Model& model : served) {
      ASSERT_TRUE(WriteModelFile(model, folder.File(model.name + ".ckn")).ok());
    }
    const absl::Status status = ModelLoader(folder.path(), models_, metrics_).LoadAll();
    ASSERT_TRUE(status.ok()) << status;
  }

  InferenceCore& core() {
    if (core_ == nullptr) core_ = std::make_unique<InferenceCore>(models_, executor_, metrics_, clock_, limits_);
    return *core_;
  }

  // Runs a call to its end and checks that it ended once.
  absl::Status RunCall(const std::function<void(InferenceCore::Done)>& start) {
    int ended = 0;
    absl::Status result;
    start([&](const absl::Status& status) {
      ++ended;
      result = status;
    });
    while (executor_.RunOne()) {
    }
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(core().calls_in_flight(), 0);
    EXPECT_EQ(metrics_.in_flight().Value(), 0);
    return result;
  }

  double Sample(const std::string& name) { return ParsePrometheusText(metrics_.Text()).at(name); }
  double StageCount(const std::string& stage) {
    return Sample(absl::StrCat("ckn_stage_duration_seconds_count{stage=\"", stage, "\"}"));
  }
  double ImageCount(const std::string& model, const std::string& outcome) {
    return Sample(absl::StrCat("ckn_images_total{model=\"", model, "\",outcome=\"", outcome, "\"}"));
  }

  const Model model_ = TinyModel();
  InferenceLimits limits_;
  FakeClock clock_;
  FakeCall call_;
  ModelRegistry models_;
  Metrics metrics_{"test"};
  Executor executor_{{.threads = 0, .max_queue = 2}, &metrics_.queue_length()};

 private:
  std::unique_ptr<InferenceCore> core_;
};

}  // namespace ckn::testing
