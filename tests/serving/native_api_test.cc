#include "server/serving/native_api.h"

#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/image/encode_png.h"
#include "tests/serving/core_test.h"
#include "tests/testing/prometheus_text.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::ckn::testing::EncodePnm;
using ::ckn::testing::FakeCall;
using ::ckn::testing::FakeClock;
using ::ckn::testing::ParsePrometheusText;
using ::ckn::testing::TempDir;
using ::ckn::testing::TinyImage;
using ::ckn::testing::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::Image Encoded(const ImageU8& image) {
  v1::Image out;
  out.set_encoded(EncodePnm(image));
  return out;
}

v1::Image Pixels(const ImageU8& image) {
  v1::Image out;
  out.mutable_pixels()->set_height(image.height);
  out.mutable_pixels()->set_width(image.width);
  out.mutable_pixels()->set_channels(image.channels);
  out.mutable_pixels()->set_data(image.pixels.data(), image.pixels.size());
  return out;
}

v1::Image Garbage() {
  v1::Image out;
  out.set_encoded("this is no image");
  return out;
}

class NativeApiTest : public ::ckn::testing::CoreTest {
 protected:
  NativeApi api() { return NativeApi(core()); }
  absl::Status Classify(const v1::ClassifyRequest& request, v1::ClassifyResponse* response) {
    return RunCall([&](InferenceCore::Done done) { api().Classify(call_, request, response, std::move(done)); });
  }
  absl::Status Encode(const v1::EncodeRequest& request, v1::EncodeResponse* response) {
    return RunCall([&](InferenceCore::Done done) { api().Encode(call_, request, response, std::move(done)); });
  }
  // The status of classifying one image.
  absl::Status ClassifyOne(const v1::Image& image) {
    v1::ClassifyRequest request;
    *request.add_images() = image;
    v1::ClassifyResponse response;
    return Classify(request, &response);
  }
};

TEST_F(NativeApiTest, ClassifiesEncodedImagesAndPixelsAsThePipelineDoes) {
  const auto pipeline = Pipeline::Create(model_);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::ClassifyRequest request;
  request.set_model("tiny");
  request.set_top_k(3);
  for (int i = 0; i < 4; ++i) {
    const ImageU8 image = TinyImage(model_, static_cast<std::uint64_t>(i));
    *request.add_images() = i % 2 == 0 ? Encoded(image) : Pixels(image);
  }
  v1::ClassifyResponse response;
  ASSERT_TRUE(Classify(request, &response).ok());
  EXPECT_EQ(response.model(), "tiny");
  ASSERT_EQ(response.results_size(), 4);
  for (int i = 0; i < 4; ++i) {
    const auto scores = pipeline->Classify(TinyImage(model_, static_cast<std::uint64_t>(i)));
    ASSERT_TRUE(scores.ok()) << scores.status();
    const v1::Classification& result = response.results(i);
    EXPECT_EQ(result.status().code(), 0);
    ASSERT_EQ(result.classes_size(), 3);
    EXPECT_EQ(result.classes(0).index(), ArgMax(*scores));
    for (int k = 0; k < 3; ++k) {
      const v1::ClassScore& entry = result.classes(k);
      EXPECT_EQ(entry.score(), (*scores)[static_cast<std::size_t>(entry.index())]);
      EXPECT_EQ(entry.label(), absl::StrCat("class ", entry.index()));
      if (k > 0) {
        EXPECT_LE(entry.score(), result.classes(k - 1).score());
      }
    }
  }
}

// The thread at the connections, which would answer nobody meanwhile.
TEST_F(NativeApiTest, ASmallFileOfManyPixelsIsNotLeftToTheThreadThatBroughtIt) {
  ImageU8 black{.height = 1000, .width = 1000, .channels = 1, .pixels = std::vector<std::uint8_t>(1'000'000)};
  const absl::StatusOr<std::string> file = EncodePng(black);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_LT(file->size(), 16U << 10);
  v1::Image many_pixels;
  many_pixels.set_encoded(*file);

  Executor executor({.threads = 1, .max_queue = 2}, nullptr);
  InferenceCore core(models_, executor, metrics_, clock_, limits_);
  NativeApi api(core);
  Executor::Lender lender(executor);
  const auto run_by = [&](const v1::Image& image) {
    v1::ClassifyRequest request;
    *request.add_images() = image;
    v1::ClassifyResponse response;
    std::thread::id by;
    absl::BlockingCounter done(1);
    api.Classify(call_, request, &response, [&](const absl::Status&) {
      by = std::this_thread::get_id();
      done.DecrementCount();
    });
    while (lender.Lend()) {
    }
    done.Wait();
    return by;
  };
  EXPECT_EQ(run_by(Encoded(TinyImage(model_, 1))), std::this_thread::get_id());
  EXPECT_NE(run_by(many_pixels), std::this_thread::get_id());
}

TEST_F(NativeApiTest, ACalibratedModelGivesProbabilities) {
  v1::ClassifyRequest request;
  request.set_top_k(3);
  *request.add_images() = Encoded(TinyImage(model_, 1));
  v1::ClassifyResponse response;
  ASSERT_TRUE(Classify(request, &response).ok());
  for (const v1::ClassScore& entry : response.results(0).classes()) EXPECT_FALSE(entry.has_probability());

  Model calibrated = model_;
  calibrated.svm.probability_scale = 3;
  Serve({calibrated});
  response.Clear();
  ASSERT_TRUE(Classify(request, &response).ok());
  const absl::StatusOr<Pipeline> pipeline = Pipeline::Create(calibrated);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const std::vector<float> expected = pipeline->Probabilities(*pipeline->Classify(TinyImage(model_, 1)));
  float sum = 0;
  for (const v1::ClassScore& entry : response.results(0).classes()) {
    EXPECT_EQ(entry.probability(), expected[static_cast<std::size_t>(entry.index())]);
    sum += entry.probability();
  }
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST_F(NativeApiTest, NoveltyIsToldWhereTheModelHasIt) {
  v1::ClassifyRequest classify;
  v1::EncodeRequest encode;
  *classify.add_images() = *encode.add_images() = Encoded(TinyImage(model_, 1));
  v1::ClassifyResponse classified;
  v1::EncodeResponse encoded;
  ASSERT_TRUE(Classify(classify, &classified).ok() && Encode(encode, &encoded).ok());
  EXPECT_FALSE(classified.results(0).has_novelty());
  EXPECT_FALSE(encoded.results(0).has_novelty());

  Model ranked = model_;
  ranked.residual_quantiles = {-5, 0.5F, 2};
  Serve({ranked});
  classified.Clear();
  encoded.Clear();
  ASSERT_TRUE(Classify(classify, &classified).ok() && Encode(encode, &encoded).ok());
  std::optional<Novelty> expected;
  ASSERT_TRUE(Pipeline::Create(ranked)->Classify(TinyImage(model_, 1), &expected).ok());
  for (const v1::Novelty& novelty : {classified.results(0).novelty(), encoded.results(0).novelty()}) {
    EXPECT_EQ(novelty.residual(), expected->residual);
    EXPECT_EQ(novelty.rank(), expected->rank);
    EXPECT_GT(novelty.rank(), 0);
  }
}

TEST_F(NativeApiTest, EncodesAsThePipelineDoes) {
  const auto pipeline = Pipeline::Create(model_);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::EncodeRequest request;
  *request.add_images() = Encoded(TinyImage(model_, 5));
  *request.add_images() = Pixels(TinyImage(model_, 6));
  v1::EncodeResponse response;
  ASSERT_TRUE(Encode(request, &response).ok());
  EXPECT_EQ(response.model(), "tiny");
  ASSERT_EQ(response.results_size(), 2);
  for (int i = 0; i < 2; ++i) {
    const auto features = pipeline->Encode(TinyImage(model_, 5 + static_cast<std::uint64_t>(i)));
    ASSERT_TRUE(features.ok()) << features.status();
    EXPECT_THAT(response.results(i).values(), ::testing::ElementsAreArray(*features));
  }
}

TEST_F(NativeApiTest, TopKIsOneWhenNotGivenAndAtMostTheNumberOfClasses) {
  for (const auto& [top_k, expected] : {std::pair(0, 1), {1, 1}, {2, 2}, {3, 3}, {4, 3}, {1 << 30, 3}}) {
    v1::ClassifyRequest request;
    request.set_top_k(top_k);
    *request.add_images() = Encoded(TinyImage(model_, 1));
    v1::ClassifyResponse response;
    ASSERT_TRUE(Classify(request, &response).ok());
    EXPECT_EQ(response.results(0).classes_size(), expected) << top_k;
  }
}

TEST_F(NativeApiTest, RefusesNegativeTopK) {
  v1::ClassifyRequest request;
  request.set_top_k(-1);
  *request.add_images() = Encoded(TinyImage(model_, 1));
  v1::ClassifyResponse response;
  const absl::Status status = Classify(request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("top_k: -1"));
}

TEST_F(NativeApiTest, RefusesCallsWithoutImages) {
  v1::ClassifyResponse response;
  EXPECT_EQ(Classify({}, &response).code(), absl::StatusCode::kInvalidArgument);
  v1::EncodeResponse features;
  EXPECT_EQ(Encode({}, &features).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(NativeApiTest, ImageCountLimitIsExact) {
  limits_.max_images = 3;
  v1::ClassifyRequest request;
  for (int i = 0; i < 3; ++i) *request.add_images() = Encoded(TinyImage(model_, 1));
  v1::ClassifyResponse response;
  EXPECT_TRUE(Classify(request, &response).ok());
  *request.add_images() = Encoded(TinyImage(model_, 1));
  const absl::Status status = Classify(request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("4 in one call, the limit is 3"));
}

TEST_F(NativeApiTest, RepliesThatWouldBeTooLargeAreRefusedBeforeAnyWork) {
  limits_.max_message_bytes = 2 * (36 * 4 + 32);  // two feature vectors
  v1::EncodeRequest request;
  for (int i = 0; i < 2; ++i) *request.add_images() = Encoded(TinyImage(model_, 1));
  v1::EncodeResponse response;
  EXPECT_TRUE(Encode(request, &response).ok());
  EXPECT_LE(response.ByteSizeLong(), static_cast<std::size_t>(limits_.max_message_bytes));
  *request.add_images() = Encoded(TinyImage(model_, 1));
  const absl::Status status = Encode(request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("send fewer images"));
  EXPECT_EQ(StageCount("compute"), 2);
}

TEST_F(NativeApiTest, UnknownModelIsNotFoundAndCountsUnderOneLabel) {
  v1::ClassifyRequest request;
  request.set_model("other");
  *request.add_images() = Encoded(TinyImage(model_, 1));
  *request.add_images() = Encoded(TinyImage(model_, 1));
  v1::ClassifyResponse response;
  const absl::Status status = Classify(request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("\"other\""), HasSubstr("\"tiny\"")));
  EXPECT_EQ(ImageCount("(unknown)", "invalid"), 2);
}

TEST_F(NativeApiTest, SeveralModelsNeedAName) {
  Load({"one", "two"});
  v1::ClassifyRequest request;
  *request.add_images() = Encoded(TinyImage(model_, 1));
  v1::ClassifyResponse response;
  EXPECT_EQ(Classify(request, &response).code(), absl::StatusCode::kInvalidArgument);
  request.set_model("two");
  EXPECT_TRUE(Classify(request, &response).ok());
  EXPECT_EQ(response.model(), "two");
}

TEST_F(NativeApiTest, TheOnlyImagesStatusIsTheCalls) {
  v1::ClassifyRequest request;
  *request.add_images() = Garbage();
  v1::ClassifyResponse response;
  const absl::Status status = Classify(request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith("image 0: "));
  EXPECT_EQ(response.ByteSizeLong(), 0U);
}

TEST_F(NativeApiTest, BadImagesDoNotFailTheOthers) {
  v1::ClassifyRequest request;
  *request.add_images() = Encoded(TinyImage(model_, 1));
  *request.add_images() = Garbage();
  *request.add_images() = Encoded(TinyImage(TinyModel({.height = 9}), 1));
  *request.add_images() = Encoded(TinyImage(model_, 2));
  v1::ClassifyResponse response;
  ASSERT_TRUE(Classify(request, &response).ok());
  ASSERT_EQ(response.results_size(), 4);
  EXPECT_EQ(response.results(0).classes_size(), 1);
  EXPECT_EQ(response.results(3).classes_size(), 1);
  for (const int bad : {1, 2}) {
    EXPECT_EQ(response.results(bad).classes_size(), 0);
    EXPECT_EQ(response.results(bad).status().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(response.results(bad).status().message(), StartsWith(absl::StrCat("image ", bad, ": ")));
  }
  EXPECT_EQ(ImageCount("tiny", "ok"), 2);
  EXPECT_EQ(ImageCount("tiny", "invalid"), 2);
}

TEST_F(NativeApiTest, AllBadImagesStillAnswerPerImage) {
  v1::EncodeRequest request;
  *request.add_images() = Garbage();
  *request.add_images() = Garbage();
  v1::EncodeResponse response;
  EXPECT_TRUE(Encode(request, &response).ok());
  ASSERT_EQ(response.results_size(), 2);
  EXPECT_NE(response.results(0).status().code(), 0);
  EXPECT_NE(response.results(1).status().code(), 0);
}

TEST_F(NativeApiTest, WrongSizeNamesBothSizes) {
  const absl::Status status = ClassifyOne(Encoded(TinyImage(TinyModel({.height = 9, .width = 10}), 1)));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("9 x 10"), HasSubstr("8 x 8")));
}

TEST_F(NativeApiTest, ColourImagesAreAcceptedByAGrayModel) {
  EXPECT_TRUE(ClassifyOne(Encoded(TinyImage(TinyModel({.channels = 3}), 1))).ok());
  EXPECT_TRUE(ClassifyOne(Pixels(TinyImage(TinyModel({.channels = 3}), 1))).ok());
}

TEST_F(NativeApiTest, ImageWithoutContentIsInvalid) {
  const absl::Status status = ClassifyOne({});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected encoded or pixels"));
}

struct BadPixels {
  int height;
  int width;
  int channels;
  std::size_t bytes;
  const char* message;
};

class BadPixelsTest : public ::testing::TestWithParam<BadPixels> {};

TEST_P(BadPixelsTest, AreInvalid) {
  v1::Image image;
  image.mutable_pixels()->set_height(GetParam().height);
  image.mutable_pixels()->set_width(GetParam().width);
  image.mutable_pixels()->set_channels(GetParam().channels);
  image.mutable_pixels()->set_data(std::string(GetParam().bytes, 'x'));
  const auto decoded = ImageFromProto(image, {});
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(GetParam().message));
}

constexpr int kMaxInt = std::numeric_limits<int>::max();
INSTANTIATE_TEST_SUITE_P(All, BadPixelsTest,
                         ::testing::Values(BadPixels{0, 8, 1, 0, "0x8"}, BadPixels{8, 0, 1, 0, "8x0"},
                                           BadPixels{-8, -8, 1, 64, "-8x-8"}, BadPixels{8, 8, 0, 64, "0 channels"},
                                           BadPixels{8, 8, 2, 128, "2 channels"}, BadPixels{8, 8, 4, 256, "4 channels"},
                                           BadPixels{8, 8, -1, 64, "-1 channels"}, BadPixels{8, 8, 1, 63, "63 bytes"},
                                           BadPixels{8, 8, 1, 65, "65 bytes"}, BadPixels{8, 8, 3, 64, "= 192"},
                                           BadPixels{kMaxInt, kMaxInt, 3, 8, "the limit is"},
                                           // 2^32 pixels: zero when multiplied in 32 bits.
                                           BadPixels{1 << 16, 1 << 16, 1, 0, "the limit is"},
                                           BadPixels{8, 8, 1, 0, "0 bytes"}));

TEST(ImageFromProtoTest, PixelLimitIsExact) {
  v1::Image image = Pixels(TinyImage(TinyModel(), 1));
  EXPECT_TRUE(ImageFromProto(image, {.max_pixels = 64}).ok());
  EXPECT_EQ(ImageFromProto(image, {.max_pixels = 63}).status().code(), absl::StatusCode::kInvalidArgument);
  image = Encoded(TinyImage(TinyModel(), 1));
  EXPECT_TRUE(ImageFromProto(image, {.max_pixels = 64}).ok());
  EXPECT_EQ(ImageFromProto(image, {.max_pixels = 63}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(NativeApiTest, FullQueueIsResourceExhausted) {
  v1::ClassifyRequest request;
  *request.add_images() = Encoded(TinyImage(model_, 1));
  v1::ClassifyResponse waiting[2];
  int ended = 0;
  for (v1::ClassifyResponse& response : waiting) {
    api().Classify(call_, request, &response, [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      ++ended;
    });
  }
  EXPECT_EQ(metrics_.in_flight().Value(), 2);
  EXPECT_EQ(core().calls_in_flight(), 2);

  absl::Status refused;
  v1::ClassifyResponse response;
  api().Classify(call_, request, &response, [&](const absl::Status& status) { refused = status; });
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(response.ByteSizeLong(), 0U);
  while (executor_.RunOne()) {
  }
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="RESOURCE_EXHAUSTED",method="Classify"})"), 1);
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="OK",method="Classify"})"), 2);
}

TEST_F(NativeApiTest, DrainingIsUnavailable) {
  executor_.Drain();
  EXPECT_EQ(ClassifyOne(Encoded(TinyImage(model_, 1))).code(), absl::StatusCode::kUnavailable);
}

TEST_F(NativeApiTest, ExpiredCallIsNotQueued) {
  call_.deadline = clock_.Now();
  EXPECT_EQ(ClassifyOne(Encoded(TinyImage(model_, 1))).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(StageCount("queue"), 0);
}

TEST_F(NativeApiTest, CallThatExpiresInTheQueueIsNeitherDecodedNorComputed) {
  call_.deadline = clock_.Now() + absl::Seconds(1);
  v1::ClassifyRequest request;
  *request.add_images() = Encoded(TinyImage(model_, 1));
  *request.add_images() = Encoded(TinyImage(model_, 2));
  v1::ClassifyResponse response;
  absl::Status result;
  api().Classify(call_, request, &response, [&](const absl::Status& status) { result = status; });
  EXPECT_EQ(executor_.queue_length(), 1U);
  clock_.Advance(absl::Seconds(1));
  while (executor_.RunOne()) {
  }
  EXPECT_EQ(result.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(response.ByteSizeLong(), 0U);
  EXPECT_EQ(StageCount("queue"), 1);
  EXPECT_EQ(StageCount("decode"), 0);
  EXPECT_EQ(StageCount("compute"), 0);
  EXPECT_EQ(ImageCount("tiny", "expired"), 2);
}

TEST_F(NativeApiTest, CancellationIsSeenBeforeDecodeAndAgainBeforeCompute) {
  // Asked on arrival, before decode and before compute.
  call_.cancel_after = 2;
  EXPECT_EQ(ClassifyOne(Encoded(TinyImage(model_, 1))).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(StageCount("decode"), 1);
  EXPECT_EQ(StageCount("compute"), 0);
  EXPECT_EQ(ImageCount("tiny", "expired"), 1);
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="CANCELLED",method="Classify"})"), 1);
}

TEST_F(NativeApiTest, ExpiryHalfwayFailsTheWholeCall) {
  call_.deadline = clock_.Now() + absl::Seconds(1);
  v1::EncodeRequest request;
  *request.add_images() = Encoded(TinyImage(model_, 1));
  *request.add_images() = Encoded(TinyImage(model_, 2));
  v1::EncodeResponse response;
  absl::Status result;
  api().Encode(call_, request, &response, [&](const absl::Status& status) { result = status; });
  ASSERT_TRUE(executor_.RunOne());
  clock_.Advance(absl::Seconds(1));
  ASSERT_TRUE(executor_.RunOne());
  EXPECT_EQ(result.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(response.ByteSizeLong(), 0U);
  EXPECT_EQ(ImageCount("tiny", "ok"), 1);
  EXPECT_EQ(ImageCount("tiny", "expired"), 1);
}

TEST_F(NativeApiTest, CallInTheQueueKeepsItsModelWhenTheSetIsReplaced) {
  v1::ClassifyRequest request;
  *request.add_images() = Encoded(TinyImage(model_, 1));
  v1::ClassifyResponse response;
  absl::Status result = absl::UnknownError("not called");
  api().Classify(call_, request, &response, [&](const absl::Status& status) { result = status; });
  models_.Replace({});
  while (executor_.RunOne()) {
  }
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(response.model(), "tiny");
  EXPECT_EQ(response.results_size(), 1);
}

TEST_F(NativeApiTest, NumbersThatAreNotFiniteAreAnInternalError) {
  const TempDir folder;
  Model model = TinyModel({.name = "overflow"});
  // All-zero images give patches of zero norm and maps of exactly 0, so the warm-up passes. Of others, each layer
  // multiplies the norm by the largest root of eta until it overflows.
  Layer grow = model.networks[0].layers.front();
  grow.patch_size = 1;
  grow.in_channels = grow.filter_count();
  grow.subsampling = 1;
  grow.pooling_radius = 0;
  grow.subtract_patch_mean = false;
  grow.sigma = kMaxParameter;
  grow.filters = RowMatrixF::Ones(grow.in_channels, grow.in_channels);
  grow.eta.setConstant(kMaxParameter);
  for (int i = 0; i < 12; ++i) model.networks[0].layers.push_back(grow);
  model.networks[0].learning.resize(model.networks[0].layers.size());
  Serve({model});

  v1::ClassifyRequest request;
  *request.add_images() = Encoded(TinyImage(model, 1));
  v1::ClassifyResponse response;
  const absl::Status status = Classify(request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not finite numbers"));
  EXPECT_EQ(ImageCount("overflow", "error"), 1);
}

TEST_F(NativeApiTest, ListsModelsSortedByName) {
  Load({"zeta", "alpha"});
  v1::ListModelsResponse response;
  int ended = 0;
  api().ListModels(call_, {}, &response, [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    ++ended;
  });
  EXPECT_EQ(ended, 1);
  ASSERT_EQ(response.models_size(), 2);
  EXPECT_EQ(response.models(0).name(), "alpha");
  EXPECT_EQ(response.models(1).name(), "zeta");
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="OK",method="ListModels"})"), 1);
}

TEST_F(NativeApiTest, ManyCallsOnManyWorkersGiveTheResultsOfOne) {
  const auto pipeline = Pipeline::Create(model_);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  constexpr int kCalls = 64;
  constexpr int kImages = 8;
  Executor executor({.threads = 4, .max_queue = kCalls}, nullptr);
  InferenceCore many(models_, executor, metrics_, clock_, limits_);
  NativeApi many_api(many);
  std::vector<v1::EncodeRequest> requests(kCalls);
  std::vector<v1::EncodeResponse> responses(kCalls);
  std::vector<absl::Status> results(kCalls, absl::UnknownError("not called"));
  absl::BlockingCounter ended(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    const auto slot = static_cast<std::size_t>(i);
    for (int k = 0; k < kImages; ++k) {
      *requests[slot].add_images() = Encoded(TinyImage(model_, slot * kImages + static_cast<std::size_t>(k)));
    }
    many_api.Encode(call_, requests[slot], &responses[slot], [&results, &ended, slot](const absl::Status& status) {
      results[slot] = status;
      ended.DecrementCount();
    });
  }
  ended.Wait();
  for (int i = 0; i < kCalls; ++i) {
    const auto slot = static_cast<std::size_t>(i);
    ASSERT_TRUE(results[slot].ok()) << results[slot];
    for (int k = 0; k < kImages; ++k) {
      const auto features = pipeline->Encode(TinyImage(model_, slot * kImages + static_cast<std::size_t>(k)));
      ASSERT_THAT(responses[slot].results(k).values(), ::testing::ElementsAreArray(*features));
    }
  }
  executor.Drain();
  EXPECT_EQ(many.calls_in_flight(), 0);
  EXPECT_EQ(ImageCount("tiny", "ok"), kCalls * kImages);
}

}  // namespace
}  // namespace ckn
