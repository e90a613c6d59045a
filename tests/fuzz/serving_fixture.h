#pragma once

#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "server/serving/inference_core.h"
#include "server/serving/model_registry.h"
#include "server/serving/wire_message.h"
#include "server/store/model_file.h"
#include "spdlog/spdlog.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/serving/fakes.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn::testing {

// As the services do: judged by the bytes first. What is parsed takes no more memory than was said.
inline bool ParseRequest(const std::string& bytes, google::protobuf::Message* request) {
  constexpr ParseLimits kLimits{.max_elements = 1 << 16, .max_bytes = 1 << 28};
  const std::size_t half = bytes.size() / 2;
  const grpc::Slice pieces[] = {grpc::Slice(bytes.substr(0, half)), grpc::Slice(bytes.substr(half))};
  grpc::ByteBuffer wire(pieces, 2);
  const absl::StatusOr<std::int64_t> bound = ParsedBytes(&wire, *request->GetDescriptor(), kLimits);
  const absl::Status parsed = ParseMessage(&wire, kLimits, request);
  CKN_FUZZ_CHECK(!parsed.ok() || bound.ok(), bound.status().ToString());
  CKN_FUZZ_CHECK(!parsed.ok() || MemoryOf(*request) <= *bound, MemoryOf(*request));
  return parsed.ok();
}

// A core without network and threads, which serves three tiny models: "tiny", gray; "stretch", colour, calibrated and
// with novelty, which takes images of every size; and "tiny" again as version 2.
class ServingFixture {
 public:
  ServingFixture() {
    spdlog::set_level(spdlog::level::off);
    google::protobuf::SetLogHandler(nullptr);
    const Model tiny = TinyModel();
    Model stretch = TinyModel({.name = "stretch", .height = 5, .width = 6, .channels = 3});
    stretch.networks.front().input.resize = ResizePolicy::kStretch;
    stretch.residual_quantiles = {0.1F, 0.5F, 0.9F};
    stretch.svm.probability_scale = 1.5F;
    ModelSet models;
    Add(tiny, 1, models);
    Add(tiny, 2, models);
    Add(stretch, 1, models);
    models_.Replace(std::move(models));
  }

  InferenceCore& core() { return core_; }

  // Runs a call to its end and checks that it ends once, with nothing but documented errors, and within the limits.
  template <typename Start>
  absl::Status RunCall(const Start& start, const google::protobuf::Message& response) {
    int ended = 0;
    absl::Status result;
    start([&](const absl::Status& status) {
      ++ended;
      result = status;
    });
    while (executor_.RunOne()) {
    }
    CKN_FUZZ_CHECK(ended == 1, ended);
    CKN_FUZZ_CHECK(core_.calls_in_flight() == 0, core_.calls_in_flight());
    if (!result.ok()) {
      CheckErrorMessage(result);
      CKN_FUZZ_CHECK(absl::IsInvalidArgument(result) || absl::IsNotFound(result) || absl::IsCancelled(result) ||
                         absl::IsPermissionDenied(result),
                     result.ToString());
      CKN_FUZZ_CHECK(response.ByteSizeLong() == 0, response.ShortDebugString());
    }
    CKN_FUZZ_CHECK(response.ByteSizeLong() <= static_cast<std::size_t>(kLimits.max_message_bytes),
                   response.ByteSizeLong());
    std::string wire;
    CKN_FUZZ_CHECK(response.SerializeToString(&wire), "");
    // Also strings that are no UTF-8 fail here, as they do at clients.
    const std::unique_ptr<google::protobuf::Message> received(response.New());
    CKN_FUZZ_CHECK(received->ParseFromString(wire), response.ShortDebugString());
    return result;
  }

 private:
  static constexpr InferenceLimits kLimits{.max_images = 8, .max_message_bytes = 1 << 14, .max_pixels = 1 << 12};

  void Add(const Model& model, std::int64_t version, ModelSet& models) {
    const std::string path = folder_.Write("model.ckn", SerializeModelFile(model));
    const auto served = LoadServedModel(path, version);
    CKN_FUZZ_CHECK(served.ok(), served.status().ToString());
    models[model.name][version] = *served;
  }

  const TempDir folder_;
  FakeClock clock_;
  ModelRegistry models_;
  Metrics metrics_{"test"};
  Executor executor_{{.threads = 0, .max_queue = 2}, &metrics_.queue_length()};
  InferenceCore core_{models_, executor_, metrics_, clock_, kLimits};
};

}  // namespace ckn::testing
