#include "server/serving/open_inference.h"

#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/serving/core_test.h"

namespace ckn {
namespace {

using ::ckn::testing::EncodePnm;
using ::ckn::testing::TinyImage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Request = inference::ModelInferRequest;
using Response = inference::ModelInferResponse;

class OpenInferenceTest : public ::ckn::testing::CoreTest {
 protected:
  OpenInference api() {
    return {core(), "1.2.3", [this] { return ready_; }};
  }

  absl::Status Infer(const Request& request, Response* response) {
    response->Clear();
    return RunCall([&](InferenceCore::Done done) { api().ModelInfer(call_, request, response, std::move(done)); });
  }
  std::string ErrorOf(const Request& request) {
    Response response;
    const absl::Status status = Infer(request, &response);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(response.ByteSizeLong(), 0U);
    return std::string(status.message());
  }

  // Image files of these seeds.
  Request Files(const std::vector<std::uint64_t>& seeds) const {
    Request request;
    auto& tensor = *request.add_inputs();
    tensor.set_name("image");
    tensor.set_datatype("BYTES");
    tensor.add_shape(static_cast<std::int64_t>(seeds.size()));
    for (const std::uint64_t seed : seeds) {
      tensor.mutable_contents()->add_bytes_contents(EncodePnm(TinyImage(model_, seed)));
    }
    return request;
  }

  // A tensor of pixels, with contents still to be set.
  static Request Pixels(const std::string& datatype, const std::vector<std::int64_t>& shape) {
    Request request;
    auto& tensor = *request.add_inputs();
    tensor.set_name("pixels");
    tensor.set_datatype(datatype);
    tensor.mutable_shape()->Add(shape.begin(), shape.end());
    return request;
  }

  static void Ask(Request& request, const std::vector<std::string>& outputs) {
    for (const std::string& name : outputs) request.add_outputs()->set_name(name);
  }

  std::vector<float> Scores(std::uint64_t seed) const {
    return *Pipeline::Create(model_)->Classify(TinyImage(model_, seed));
  }

  bool ready_ = true;
};

std::vector<float> Floats(const Response::InferOutputTensor& tensor) {
  return {tensor.contents().fp32_contents().begin(), tensor.contents().fp32_contents().end()};
}

TEST_F(OpenInferenceTest, ClassifiesFilesAsThePipelineDoes) {
  Request request = Files({1, 2});
  request.set_model_name("tiny");
  request.set_id("call 7");
  Response response;
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_EQ(response.model_name(), "tiny");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.id(), "call 7");
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.raw_output_contents_size(), 0) << "typed contents come back typed";
  const auto& label = response.outputs(0);
  const auto& scores = response.outputs(1);
  EXPECT_EQ(label.name(), "label");
  EXPECT_EQ(label.datatype(), "BYTES");
  EXPECT_THAT(label.shape(), ElementsAre(2, 1));
  EXPECT_EQ(scores.name(), "scores");
  EXPECT_EQ(scores.datatype(), "FP32");
  EXPECT_THAT(scores.shape(), ElementsAre(2, 3));
  std::vector<float> expected;
  for (const std::uint64_t seed : {1, 2}) {
    const std::vector<float> row = Scores(seed);
    EXPECT_EQ(label.contents().bytes_contents(static_cast<int>(seed) - 1), model_.class_names[ArgMax(row)]);
    expected.insert(expected.end(), row.begin(), row.end());
  }
  EXPECT_EQ(Floats(scores), expected);
  EXPECT_EQ(ImageCount("tiny", "ok"), 2);
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="OK",method="ModelInfer"})"), 1);
}

TEST_F(OpenInferenceTest, RawContentsComeBackRaw) {
  Request request = Files({4, 5});
  std::string& raw = *request.add_raw_input_contents();
  for (const std::string& file : request.inputs(0).contents().bytes_contents()) {
    const auto length = static_cast<std::uint32_t>(file.size());
    raw.append(reinterpret_cast<const char*>(&length), 4).append(file);
  }
  request.mutable_inputs(0)->clear_contents();
  request.mutable_inputs(0)->add_shape(1);  // [2, 1] is as good as [2]
  Ask(request, {"scores", "label"});
  Response response;
  ASSERT_TRUE(Infer(request, &response).ok());
  ASSERT_EQ(response.raw_output_contents_size(), 2);
  EXPECT_FALSE(response.outputs(0).has_contents());
  std::vector<float> scores(6);
  ASSERT_EQ(response.raw_output_contents(0).size(), 24U);
  std::memcpy(scores.data(), response.raw_output_contents(0).data(), 24);
  std::vector<float> expected = Scores(4);
  for (const float value : Scores(5)) expected.push_back(value);
  EXPECT_EQ(scores, expected);
  std::string labels;
  for (const std::uint64_t seed : {4, 5}) {
    const std::string& name = model_.class_names[ArgMax(Scores(seed))];
    const auto length = static_cast<std::uint32_t>(name.size());
    labels.append(reinterpret_cast<const char*>(&length), 4).append(name);
  }
  EXPECT_EQ(response.raw_output_contents(1), labels);
}

TEST_F(OpenInferenceTest, PixelsOfEveryTypeAndLayoutGiveTheSameAnswer) {
  Serve({::ckn::testing::TinyModel({.channels = 3})});
  const Model colour = ::ckn::testing::TinyModel({.channels = 3});
  // Two images, one after the other.
  std::vector<std::uint8_t> pixels;
  std::vector<float> expected;
  for (const std::uint64_t seed : {3, 4}) {
    const ImageU8 image = TinyImage(colour, seed);
    const std::vector<float> scores = *Pipeline::Create(colour)->Classify(image);
    pixels.insert(pixels.end(), image.pixels.begin(), image.pixels.end());
    expected.insert(expected.end(), scores.begin(), scores.end());
  }
  for (const bool fp32 : {false, true}) {
    for (const bool first : {false, true}) {
      for (const bool raw : {false, true}) {
        std::vector<std::uint8_t> values = pixels;
        if (first) {
          for (std::size_t i = 0; i < values.size(); ++i) {
            values[i / 192 * 192 + i % 3 * 64 + i % 192 / 3] = pixels[i];
          }
        }
        Request request = Pixels(fp32 ? "FP32" : "UINT8",
                                 first ? std::vector<std::int64_t>{2, 3, 8, 8} : std::vector<std::int64_t>{2, 8, 8, 3});
        Ask(request, {"scores"});
        std::string bytes;
        for (const std::uint8_t value : values) {
          const float unit = static_cast<float>(value) / 255;
          if (raw && fp32) bytes.append(reinterpret_cast<const char*>(&unit), 4);
          if (raw && !fp32) bytes.push_back(static_cast<char>(value));
          if (!raw && fp32) request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(unit);
          if (!raw && !fp32) request.mutable_inputs(0)->mutable_contents()->add_uint_contents(value);
        }
        if (raw) request.add_raw_input_contents(bytes);
        Response response;
        ASSERT_TRUE(Infer(request, &response).ok()) << fp32 << first << raw;
        std::vector<float> scores = Floats(response.outputs(0));
        if (raw) {
          scores.resize(6);
          std::memcpy(scores.data(), response.raw_output_contents(0).data(), 24);
        }
        EXPECT_EQ(scores, expected) << fp32 << first << raw;
      }
    }
  }
}

TEST_F(OpenInferenceTest, GrayPixelsNeedNoChannels) {
  Request request = Pixels("UINT8", {1, 8, 8});
  for (const std::uint8_t value : TinyImage(model_, 2).pixels) {
    request.mutable_inputs(0)->mutable_contents()->add_uint_contents(value);
  }
  Ask(request, {"scores"});
  Response response;
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_EQ(Floats(response.outputs(0)), Scores(2));
}

// Where both layouts are possible the last dimension decides, unless the request does.
TEST_F(OpenInferenceTest, TheLayoutCanBeGiven) {
  Request request = Pixels("UINT8", {1, 3, 5, 3});
  for (int i = 0; i < 45; ++i) request.mutable_inputs(0)->mutable_contents()->add_uint_contents(1);
  EXPECT_THAT(ErrorOf(request), HasSubstr("image of 3 x 5 pixels"));
  (*request.mutable_inputs(0)->mutable_parameters())["layout"].set_string_param("NCHW");
  EXPECT_THAT(ErrorOf(request), HasSubstr("image of 5 x 3 pixels"));
  (*request.mutable_inputs(0)->mutable_parameters())["layout"].set_string_param("CHWN");
  EXPECT_EQ(ErrorOf(request), R"(input "pixels": parameter layout: got "CHWN", expected "NHWC" or "NCHW")");
}

TEST_F(OpenInferenceTest, AllOutputsOfAModelThatHasThem) {
  Model full = model_;
  full.svm.probability_scale = 2;
  full.residual_quantiles = {-5, 2};
  Serve({full});
  const Pipeline pipeline = *Pipeline::Create(full);
  const ImageU8 image = TinyImage(full, 6);
  std::optional<Novelty> novelty;
  const std::vector<float> features = *pipeline.Encode(image, &novelty);

  Request request = Files({6});
  Ask(request, {"features", "probabilities", "novelty"});
  Response response;
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_EQ(Floats(response.outputs(0)), features);
  EXPECT_EQ(Floats(response.outputs(1)), pipeline.Probabilities(Scores(6)));
  EXPECT_THAT(Floats(response.outputs(2)), ElementsAre(novelty->rank));
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(1, static_cast<int>(features.size())));
}

TEST_F(OpenInferenceTest, ClassificationGivesValueIndexAndLabel) {
  Request request = Files({1});
  Ask(request, {"scores"});
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(2);
  Response response;
  ASSERT_TRUE(Infer(request, &response).ok());
  const std::vector<float> scores = Scores(1);
  const std::vector<int> best = TopK(scores, 2);
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(1, 2));
  EXPECT_THAT(response.outputs(0).contents().bytes_contents(),
              ElementsAre(absl::StrCat(scores[best[0]], ":", best[0], ":class ", best[0]),
                          absl::StrCat(scores[best[1]], ":", best[1], ":class ", best[1])));
  // More than there are: all.
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_uint64_param(
      std::numeric_limits<std::uint64_t>::max());
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(1, 3));
}

TEST_F(OpenInferenceTest, HintsThatOtherServersTakeDoNoHarm) {
  Request request = Files({1});
  (*request.mutable_inputs(0)->mutable_parameters())["content_type"].set_string_param("image/png");
  Ask(request, {"scores"});
  (*request.mutable_outputs(0)->mutable_parameters())["binary_data"].set_bool_param(true);
  (*request.mutable_parameters())["priority"].set_uint64_param(1);
  Response response;
  EXPECT_TRUE(Infer(request, &response).ok());
}

TEST_F(OpenInferenceTest, MessagesStayShortWhateverIsSent) {
  Request request = Files({1});
  request.mutable_inputs(0)->mutable_shape()->Resize(100'000, 1);
  EXPECT_LT(ErrorOf(request).size(), 200U);
  request = Files({1});
  request.set_id(std::string(257, 'x'));
  EXPECT_EQ(ErrorOf(request), "id: 257 bytes, expected at most 256");
}

TEST_F(OpenInferenceTest, OneImageThatCannotBeUsedFailsTheCallAndIsNamed) {
  Request request = Files({1, 2, 3});
  request.mutable_inputs(0)->mutable_contents()->set_bytes_contents(1, "no image");
  EXPECT_THAT(ErrorOf(request), HasSubstr("image 1: "));
  EXPECT_EQ(ImageCount("tiny", "ok"), 1);
  EXPECT_EQ(ImageCount("tiny", "invalid"), 1);
  EXPECT_EQ(ImageCount("tiny", "expired"), 1) << "the reply has no place for what comes after";
  EXPECT_EQ(StageCount("decode"), 2);
}

TEST_F(OpenInferenceTest, ModelsAreFoundByNameAndVersion) {
  Request request = Files({1});
  Response response;
  request.set_model_version("1");
  EXPECT_TRUE(Infer(request, &response).ok());
  request.set_model_version("2");
  EXPECT_EQ(Infer(request, &response).code(), absl::StatusCode::kNotFound);
  request.set_model_version("");
  request.set_model_name("other");
  EXPECT_EQ(Infer(request, &response).code(), absl::StatusCode::kNotFound);
}

TEST_F(OpenInferenceTest, ARequestThatCannotBeReadIsRefusedWithTheReason) {
  using Change = void (*)(Request&);
  struct Case {
    const char* reason;
    Change change;
  };
  const Case cases[] = {
      {"inputs: 0 tensors, expected one", [](Request& r) { r.clear_inputs(); }},
      {"inputs: 2 tensors, expected one", [](Request& r) { *r.add_inputs() = r.inputs(0); }},
      {R"(input "x": unknown name, expected "image" or "pixels")",
       [](Request& r) { r.mutable_inputs(0)->set_name("x"); }},
      {R"(datatype "FP32", expected "BYTES"; pixels are the input "pixels")",
       [](Request& r) { r.mutable_inputs(0)->set_datatype("FP32"); }},
      {"shape [], expected [N] or [N, 1]", [](Request& r) { r.mutable_inputs(0)->clear_shape(); }},
      {"shape [1, 2], expected [N] or [N, 1]", [](Request& r) { r.mutable_inputs(0)->add_shape(2); }},
      {"shape [-1], expected positive", [](Request& r) { r.mutable_inputs(0)->set_shape(0, -1); }},
      {"shape [0], expected positive", [](Request& r) { r.mutable_inputs(0)->set_shape(0, 0); }},
      {"1 elements, expected 2 for shape [2]", [](Request& r) { r.mutable_inputs(0)->set_shape(0, 2); }},
      {"too many elements, the limit is 1024",
       [](Request& r) { r.mutable_inputs(0)->set_shape(0, std::numeric_limits<std::int64_t>::max()); }},
      {"got contents and raw_input_contents", [](Request& r) { r.add_raw_input_contents("x"); }},
      {"raw_input_contents: 2 elements, expected one an input",
       [](Request& r) {
         r.mutable_inputs(0)->clear_contents();
         r.add_raw_input_contents("");
         r.add_raw_input_contents("");
       }},
      {"element 0: truncated, expected 4 bytes of length",
       [](Request& r) {
         r.mutable_inputs(0)->clear_contents();
         r.add_raw_input_contents("abc");
       }},
      {"element 0: 4294967295 bytes, but only 1 are left",
       [](Request& r) {
         r.mutable_inputs(0)->clear_contents();
         r.add_raw_input_contents("\xff\xff\xff\xffx");
       }},
      {"more elements than the 1 of its shape",
       [](Request& r) {
         r.mutable_inputs(0)->clear_contents();
         r.add_raw_input_contents(std::string(4096, '\0'));
       }},
      {"0 elements, expected 1",
       [](Request& r) {
         r.mutable_inputs(0)->clear_contents();
         r.add_raw_input_contents("");
       }},
      {R"(parameter "shared_memory_region" is not supported)",
       [](Request& r) { (*r.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("x"); }},
      {"the model does not have it, expected one of label, scores, features",
       [](Request& r) { r.add_outputs()->set_name("probabilities"); }},
      {R"(output "label": asked for twice)",
       [](Request& r) {
         Ask(r, {"label", "label"});
       }},
      {R"(output "features": parameter "classification" is not supported)",
       [](Request& r) {
         Ask(r, {"features"});
         (*r.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(1);
       }},
      {"parameter classification: got -1, expected 0 or more",
       [](Request& r) {
         Ask(r, {"scores"});
         (*r.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(-1);
       }},
      {"parameter classification: expected an integer",
       [](Request& r) {
         Ask(r, {"scores"});
         (*r.mutable_outputs(0)->mutable_parameters())["classification"].set_string_param("1");
       }},
  };
  for (const Case& test : cases) {
    Request request = Files({1});
    test.change(request);
    EXPECT_THAT(ErrorOf(request), HasSubstr(test.reason));
  }
}

TEST_F(OpenInferenceTest, PixelsThatCannotBeReadAreRefusedWithTheReason) {
  const auto refused = [&](const std::string& datatype, const std::vector<std::int64_t>& shape, std::size_t raw_bytes,
                           const std::string& reason) {
    Request request = Pixels(datatype, shape);
    request.add_raw_input_contents(std::string(raw_bytes, '\0'));
    EXPECT_THAT(ErrorOf(request), HasSubstr(reason));
  };
  refused("INT8", {1, 8, 8}, 64, R"(datatype "INT8", expected "UINT8" or "FP32")");
  refused("UINT8", {64}, 64, "shape [64], expected [N, height, width, channels]");
  refused("UINT8", {1, 8, 8, 2}, 128, "shape [1, 8, 8, 2], expected 1 or 3 channels");
  refused("UINT8", {1, 8, 8}, 63, "63 bytes of raw contents, expected 64 for shape [1, 8, 8]");
  refused("FP32", {1, 8, 8}, 64, "64 bytes of raw contents, expected 256 for shape [1, 8, 8]");
  refused("UINT8", {1, -8, 8}, 64, "expected positive dimensions");
  refused("UINT8", {1, 1LL << 62, 4}, 64, "too many elements");
  refused("UINT8", {2000, 8, 8}, 64, "2000 images in one call, the limit is 1024");
  refused("UINT8", {1, 1 << 13, 1 << 13}, 64, "pixels, the limit is 16777216");

  Request value = Pixels("UINT8", {1, 8, 8});
  for (int i = 0; i < 64; ++i) value.mutable_inputs(0)->mutable_contents()->add_uint_contents(i == 9 ? 256 : 0);
  EXPECT_EQ(ErrorOf(value), "image 0: value 256, expected 0 to 255");
  for (const float wrong : {-0.1F, 1.5F, std::numeric_limits<float>::quiet_NaN()}) {
    Request real = Pixels("FP32", {1, 8, 8});
    for (int i = 0; i < 64; ++i) real.mutable_inputs(0)->mutable_contents()->add_fp32_contents(i == 9 ? wrong : 0);
    EXPECT_THAT(ErrorOf(real), HasSubstr("expected FP32 pixels in [0, 1]; for 0 to 255 use UINT8"));
  }
  Request typed = Pixels("UINT8", {1, 8, 8});
  typed.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  EXPECT_THAT(ErrorOf(typed), HasSubstr("0 uint_contents, expected 64"));
}

TEST_F(OpenInferenceTest, AReplyThatWouldBeTooLongIsRefused) {
  limits_.max_message_bytes = 100;
  Request request = Files({1, 2, 3});
  Ask(request, {"features"});
  EXPECT_THAT(ErrorOf(request), HasSubstr("the limit is 100"));
}

TEST_F(OpenInferenceTest, ReadinessFollowsTheServerAndItsModels) {
  inference::ModelReadyRequest model;
  model.set_name("tiny");
  EXPECT_TRUE(api().ServerReady());
  EXPECT_TRUE(api().ModelReady(model));
  model.set_version("2");
  EXPECT_FALSE(api().ModelReady(model));
  model.set_name("other");
  model.set_version("");
  EXPECT_FALSE(api().ModelReady(model));
  model.set_name("tiny");
  ready_ = false;
  EXPECT_FALSE(api().ServerReady());
  EXPECT_FALSE(api().ModelReady(model));
}

TEST_F(OpenInferenceTest, MetadataAndConfigurationDescribeTheTensors) {
  inference::ServerMetadataResponse server;
  api().ServerMetadata(&server);
  EXPECT_EQ(server.name(), "ckn");
  EXPECT_EQ(server.version(), "1.2.3");

  inference::ModelMetadataRequest request;
  request.set_name("tiny");
  inference::ModelMetadataResponse metadata;
  const auto ask = [&] {
    return RunCall([&](InferenceCore::Done done) { api().ModelMetadata(call_, request, &metadata, std::move(done)); });
  };
  ASSERT_TRUE(ask().ok());
  EXPECT_EQ(metadata.name(), "tiny");
  EXPECT_THAT(metadata.versions(), ElementsAre("1"));
  ASSERT_EQ(metadata.inputs_size(), 1);
  EXPECT_EQ(metadata.inputs(0).name(), "image");
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 1));
  ASSERT_EQ(metadata.outputs_size(), 3);
  EXPECT_EQ(metadata.outputs(1).name(), "scores");
  EXPECT_THAT(metadata.outputs(1).shape(), ElementsAre(-1, 3));
  EXPECT_EQ(metadata.properties().at("sha256").size(), 64U);

  inference::ModelConfigRequest config_request;
  config_request.set_name("tiny");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(RunCall([&](InferenceCore::Done done) {
                api().ModelConfig(call_, config_request, &config, std::move(done));
              }).ok());
  EXPECT_EQ(config.config().name(), "tiny");
  EXPECT_EQ(config.config().max_batch_size(), limits_.max_images);
  EXPECT_EQ(config.config().input(0).data_type(), inference::TYPE_STRING);
  EXPECT_EQ(config.config().output(1).data_type(), inference::TYPE_FP32);
  EXPECT_THAT(config.config().output(1).dims(), ElementsAre(3));

  request.set_name("other");
  EXPECT_EQ(ask().code(), absl::StatusCode::kNotFound);

  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(
      RunCall([&](InferenceCore::Done done) { api().RepositoryIndex(call_, {}, &index, std::move(done)); }).ok());
  ASSERT_EQ(index.models_size(), 1);
  EXPECT_EQ(index.models(0).name(), "tiny");
  EXPECT_EQ(index.models(0).state(), "READY");
}

TEST_F(OpenInferenceTest, AnErrorInAStreamIsAnAnswer) {
  inference::ModelStreamInferResponse response;
  const auto stream = [&](const Request& request) {
    response.Clear();
    return RunCall(
        [&](InferenceCore::Done done) { api().ModelStreamInfer(call_, request, &response, std::move(done)); });
  };
  Request request = Files({1});
  request.set_id("a");
  ASSERT_TRUE(stream(request).ok());
  EXPECT_EQ(response.error_message(), "");
  EXPECT_EQ(response.infer_response().id(), "a");
  EXPECT_EQ(response.infer_response().outputs_size(), 2);

  request.set_model_name("other");
  ASSERT_TRUE(stream(request).ok());
  EXPECT_THAT(response.error_message(), HasSubstr("NOT_FOUND: model \"other\" is not loaded"));
  EXPECT_EQ(response.infer_response().id(), "a");
  EXPECT_EQ(response.infer_response().outputs_size(), 0);
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="NOT_FOUND",method="ModelStreamInfer"})"), 1);
}

TEST_F(OpenInferenceTest, AnIdThatIsTooLongComesBackCutBetweenCharacters) {
  Request request = Files({1});
  request.set_id(std::string(255, 'x') + "é");
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(RunCall([&](InferenceCore::Done done) {
                api().ModelStreamInfer(call_, request, &response, std::move(done));
              }).ok());
  EXPECT_THAT(response.error_message(), HasSubstr("id: 257 bytes, expected at most 256"));
  EXPECT_EQ(response.infer_response().id(), std::string(255, 'x')) << "half a character is no string of Protobuf's";
}

}  // namespace
}  // namespace ckn
