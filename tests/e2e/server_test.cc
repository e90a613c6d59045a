// Server and client library in one process, over real loopback connections.
#include "server/serving/server.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ckn/v1/inference.grpc.pb.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "inference/open_inference.grpc.pb.h"
#include "tests/e2e/health_client.h"
#include "tests/testing/captured_log.h"
#include "tests/testing/http_get.h"
#include "tests/testing/prometheus_text.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::ckn::testing::CapturedLog;
using ::ckn::testing::EncodePnm;
using ::ckn::testing::HealthClient;
using ::ckn::testing::HttpGet;
using ::ckn::testing::ParsePrometheusText;
using ::ckn::testing::TempDir;
using ::ckn::testing::TinyImage;
using ::ckn::testing::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    EXPECT_TRUE(WriteModelFile(model_, folder_.File("tiny.ckn")).ok());
    options_.models_folder = folder_.path();
    options_.listen = {.host = "127.0.0.1", .port = 0};
    options_.http = HostPort{.host = "127.0.0.1", .port = 0};
    options_.threads = 2;
    options_.version = "test";
  }

  void Start() {
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<Client>(absl::StrCat("127.0.0.1:", server_->grpc_port()));
  }

  std::string Png(int seed) { return EncodePnm(TinyImage(model_, static_cast<std::uint64_t>(seed))); }
  double Sample(const std::string& name) {
    return ParsePrometheusText(HttpGet(server_->http_port(), "/metrics").body).at(name);
  }

  const Model model_ = TinyModel();
  TempDir folder_;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(ServerTest, ClassifiesAsThePipelineDoes) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto pipeline = Pipeline::Create(model_);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::ClassifyRequest request;
  request.set_model("tiny");
  request.set_top_k(3);
  for (int i = 0; i < 20; ++i) request.add_images()->set_encoded(Png(i));
  const auto response = client_->Classify(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->results_size(), 20);
  for (int i = 0; i < 20; ++i) {
    const auto scores = pipeline->Classify(TinyImage(model_, static_cast<std::uint64_t>(i)));
    ASSERT_TRUE(scores.ok());
    const std::vector<int> best = TopK(*scores, 3);
    ASSERT_EQ(response->results(i).classes_size(), 3);
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(response->results(i).classes(k).index(), best[static_cast<std::size_t>(k)]);
      EXPECT_EQ(response->results(i).classes(k).score(),
                (*scores)[static_cast<std::size_t>(best[static_cast<std::size_t>(k)])]);
    }
  }
}

TEST_F(ServerTest, EncodesAsThePipelineDoes) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto pipeline = Pipeline::Create(model_);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::EncodeRequest request;
  request.add_images()->set_encoded(Png(3));
  const auto response = client_->Encode(request);
  ASSERT_TRUE(response.ok()) << response.status();
  const auto features = pipeline->Encode(TinyImage(model_, 3));
  ASSERT_TRUE(features.ok());
  EXPECT_EQ(response->model(), "tiny");
  EXPECT_THAT(response->results(0).values(), ::testing::ElementsAreArray(*features));
}

TEST_F(ServerTest, ListsItsModels) {
  ASSERT_TRUE(WriteModelFile(TinyModel({.name = "another", .channels = 3}), folder_.File("x.ckn")).ok());
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto response = client_->ListModels();
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->models_size(), 2);
  EXPECT_EQ(response->models(0).name(), "another");
  EXPECT_EQ(response->models(0).channels(), 3);
  EXPECT_EQ(response->models(1).name(), "tiny");
}

TEST_F(ServerTest, ErrorsCarryTheirCodeAndReason) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto classify = [&](const std::string& model, const std::string& bytes) {
    v1::ClassifyRequest request;
    request.set_model(model);
    request.add_images()->set_encoded(bytes);
    return client_->Classify(request).status();
  };
  const absl::Status garbage = classify("", "no image at all");
  EXPECT_EQ(garbage.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(garbage), HasSubstr("image 0: "));
  const absl::Status size = classify("", EncodePnm(TinyImage(TinyModel({.height = 12, .width = 5}), 1)));
  EXPECT_EQ(size.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(size), AllOf(HasSubstr("12 x 5"), HasSubstr("8 x 8")));
  const absl::Status model = classify("nobody", Png(1));
  EXPECT_EQ(model.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(model), AllOf(HasSubstr("nobody"), HasSubstr("tiny")));
  EXPECT_EQ(client_->Classify({}).status().code(), absl::StatusCode::kInvalidArgument);
  // The server is none the worse for it.
  EXPECT_TRUE(classify("tiny", Png(1)).ok());
}

TEST_F(ServerTest, OneBadImageDoesNotFailItsCall) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::ClassifyRequest request;
  request.add_images()->set_encoded(Png(1));
  request.add_images()->set_encoded("garbage");
  request.add_images()->set_encoded(Png(2));
  const auto response = client_->Classify(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(StatusOf(response->results(0).status()).ok());
  EXPECT_EQ(StatusOf(response->results(1).status()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(response->results(1).status().message(), HasSubstr("image 1: "));
  EXPECT_TRUE(StatusOf(response->results(2).status()).ok());
}

TEST_F(ServerTest, RefusesTooManyImages) {
  options_.limits.max_images = 2;
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::ClassifyRequest request;
  for (int i = 0; i < 2; ++i) request.add_images()->set_encoded(Png(i));
  EXPECT_TRUE(client_->Classify(request).ok());
  request.add_images()->set_encoded(Png(3));
  EXPECT_EQ(client_->Classify(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServerTest, MessageLimitIsExact) {
  constexpr std::size_t kLimit = 1 << 20;
  options_.limits.max_message_bytes = kLimit;
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const std::size_t size : {kLimit - 1, kLimit, kLimit + 1}) {
    v1::ClassifyRequest request;
    request.add_images();
    // A PGM may be followed by other data; two lengths and two tags surround the file.
    std::string file = Png(1);
    file.resize(size - 8, ' ');
    request.mutable_images(0)->set_encoded(file);
    ASSERT_EQ(request.ByteSizeLong(), size);
    const auto response = client_->Classify(request);
    if (size <= kLimit) {
      // It got through: what the image decoder says of the padding does not matter here.
      EXPECT_NE(response.status().code(), absl::StatusCode::kResourceExhausted) << size << ": " << response.status();
    } else {
      EXPECT_EQ(response.status().code(), absl::StatusCode::kResourceExhausted) << size;
    }
  }
}

TEST_F(ServerTest, PackedMessagesAreRefusedBeforeTheyAreUnpacked) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->grpc_port()), grpc::InsecureChannelCredentials());
  const auto stub = v1::Inference::NewStub(channel);
  v1::ClassifyRequest request;
  request.add_images()->set_encoded(Png(1));
  for (const auto& [algorithm, expected] : {std::pair(GRPC_COMPRESS_GZIP, grpc::StatusCode::UNIMPLEMENTED),
                                            std::pair(GRPC_COMPRESS_DEFLATE, grpc::StatusCode::UNIMPLEMENTED),
                                            std::pair(GRPC_COMPRESS_NONE, grpc::StatusCode::OK)}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::ClassifyResponse response;
    const grpc::Status status = stub->Classify(&context, request, &response);
    EXPECT_EQ(status.error_code(), expected) << algorithm << ": " << status.error_message();
  }
}

TEST_F(ServerTest, MessagesLargerThanGrpcsDefaultPass) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::ClassifyRequest request;
  request.add_images()->set_encoded(Png(1));
  request.add_images()->set_encoded(std::string(8 << 20, 'x'));
  const auto response = client_->Classify(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(StatusOf(response->results(0).status()).ok());
}

TEST_F(ServerTest, ClientRefusesRequestsOverItsOwnLimit) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const Client small(absl::StrCat("127.0.0.1:", server_->grpc_port()), {.max_message_bytes = 1000});
  v1::ClassifyRequest request;
  request.add_images()->set_encoded(std::string(2000, 'x'));
  EXPECT_EQ(small.Classify(request).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="INVALID_ARGUMENT",method="Classify"})"), 0);
}

TEST_F(ServerTest, DeadlineOfTheClientHolds) {
  ASSERT_TRUE(
      WriteModelFile(TinyModel({.name = "slow", .height = 128, .width = 128, .filters = 256}), folder_.File("slow.ckn"))
          .ok());
  ASSERT_NO_FATAL_FAILURE(Start());
  const Client hasty(absl::StrCat("127.0.0.1:", server_->grpc_port()), {.timeout = absl::Milliseconds(1)});
  v1::ClassifyRequest request;
  request.set_model("slow");
  const std::string image = EncodePnm(TinyImage(TinyModel({.height = 128, .width = 128}), 1));
  for (int i = 0; i < 64; ++i) request.add_images()->set_encoded(image);
  EXPECT_EQ(hasty.Classify(request).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ServerTest, HealthServiceKnowsTheServerAndTheService) {
  ASSERT_NO_FATAL_FAILURE(Start());
  HealthClient health(server_->grpc_port());
  EXPECT_EQ(health.Check(""), HealthClient::kServing);
  EXPECT_EQ(health.Check("ckn.v1.Inference"), HealthClient::kServing);
  grpc::StatusCode code = grpc::StatusCode::OK;
  EXPECT_EQ(health.Check("nobody", &code), HealthClient::kError);
  EXPECT_EQ(code, grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, RequestIdAndTraceComeBack) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->grpc_port()), grpc::InsecureChannelCredentials()));
  const auto echoed = [&](const std::string& header, const std::string& value) {
    grpc::ClientContext context;
    context.AddMetadata(header, value);
    v1::ListModelsResponse response;
    EXPECT_TRUE(stub->ListModels(&context, {}, &response).ok());
    const auto found = context.GetServerInitialMetadata().find(header);
    return found == context.GetServerInitialMetadata().end() ? std::string()
                                                             : std::string(found->second.data(), found->second.size());
  };
  EXPECT_EQ(echoed("x-request-id", "f81d4fae-7dec"), "f81d4fae-7dec");
  EXPECT_EQ(echoed("x-request-id", "two words"), "") << "not fit for a log";
  EXPECT_EQ(echoed("x-request-id", std::string(128, 'x')), std::string(128, 'x'));
  EXPECT_EQ(echoed("x-request-id", std::string(129, 'x')), "");
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_EQ(echoed("traceparent", trace), trace);
  EXPECT_EQ(echoed("traceparent", trace.substr(1)), "");
  EXPECT_EQ(echoed("traceparent", "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), "");
}

TEST_F(ServerTest, ConnectionsThatGetOldAreReplacedWithoutAFailedCall) {
  options_.max_connection_age = absl::Milliseconds(100);
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->grpc_port()), grpc::InsecureChannelCredentials());
  const auto stub = v1::Inference::NewStub(channel);
  bool left = false;
  int calls = 0;
  for (const absl::Time end = absl::Now() + absl::Seconds(20); !left && absl::Now() < end; ++calls) {
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    const grpc::Status status = stub->ListModels(&context, {}, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    left = channel->GetState(false) != GRPC_CHANNEL_READY;
  }
  EXPECT_TRUE(left) << calls << " calls";
  grpc::ClientContext context;
  v1::ListModelsResponse response;
  EXPECT_TRUE(stub->ListModels(&context, {}, &response).ok());
}

TEST_F(ServerTest, HealthServiceKnowsEveryModel) {
  ASSERT_TRUE(WriteModelFile(TinyModel({.name = "other"}), folder_.File("other.ckn")).ok());
  ASSERT_NO_FATAL_FAILURE(Start());
  HealthClient health(server_->grpc_port());
  EXPECT_EQ(health.Check("tiny"), HealthClient::kServing);
  const auto watch = health.StartWatch("other");
  EXPECT_EQ(watch->Next(), HealthClient::kServing);
  std::filesystem::remove(folder_.File("other.ckn"));
  server_->ReloadModels();
  EXPECT_EQ(watch->Next(), HealthClient::kNotServing);
  EXPECT_EQ(health.Check("tiny"), HealthClient::kServing);
  EXPECT_EQ(health.Check(""), HealthClient::kServing);
}

TEST_F(ServerTest, AskedForAVersionThatVersionAnswers) {
  for (const int version : {1, 2}) {
    std::filesystem::create_directories(folder_.File(absl::StrCat("digits/", version)));
    const Model model = TinyModel({.name = "digits", .seed = static_cast<std::uint64_t>(version)});
    ASSERT_TRUE(WriteModelFile(model, folder_.File(absl::StrCat("digits/", version, "/m.ckn"))).ok());
  }
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::ClassifyRequest request;
  request.set_model("digits");
  request.add_images()->set_encoded(Png(1));
  std::vector<float> scores;
  for (const char* const version : {"", "1", "2"}) {
    request.set_version(version);
    const auto response = client_->Classify(request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->version(), *version == '1' ? "1" : "2") << "the latest, unless another is asked for";
    scores.push_back(response->results(0).classes(0).score());
  }
  EXPECT_EQ(scores[0], scores[2]);
  EXPECT_NE(scores[0], scores[1]);
  request.set_version("3");
  EXPECT_EQ(client_->Classify(request).status().code(), absl::StatusCode::kNotFound);

  v1::GetModelRequest get;
  get.set_model("digits");
  get.set_version("1");
  const auto model = client_->GetModel(get);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->info().version(), "1");
  EXPECT_EQ(model->info().features(), 36);
  EXPECT_FALSE(model->has_probabilities());
  EXPECT_EQ(model->precision(), "float32");
  EXPECT_EQ(client_->ListModels()->models_size(), 3);
}

TEST_F(ServerTest, ReloadsUnderLoadLoseNoCall) {
  ASSERT_NO_FATAL_FAILURE(Start());
  std::atomic<bool> done{false};
  std::atomic<int> good{0}, bad{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      const Client client(absl::StrCat("127.0.0.1:", server_->grpc_port()));
      v1::ClassifyRequest request;
      request.set_model("tiny");
      for (int k = 0; k < 4; ++k) request.add_images()->set_encoded(Png(k));
      while (!done.load()) ++(client.Classify(request).ok() ? good : bad);
    });
  }
  constexpr int kReloads = 100;
  for (std::uint64_t i = 1; i <= kReloads; ++i) {
    if (i % 10 == 0) {
      folder_.Write("tiny.ckn", "a file that is being copied");
    } else {
      ASSERT_TRUE(WriteModelFile(TinyModel({.seed = i}), folder_.File("tiny.ckn")).ok());
    }
    const double loads =
        Sample("ckn_model_loads_total{outcome=\"ok\"}") + Sample("ckn_model_loads_total{outcome=\"failed\"}");
    server_->ReloadModels();
    while (Sample("ckn_model_loads_total{outcome=\"ok\"}") + Sample("ckn_model_loads_total{outcome=\"failed\"}") ==
           loads) {
      std::this_thread::yield();
    }
  }
  done.store(true);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(bad.load(), 0);
  EXPECT_GT(good.load(), 0);
  EXPECT_EQ(Sample("ckn_models_failed"), 1) << "the last file is a broken one";
  EXPECT_EQ(Sample("ckn_ready"), 1);
}

TEST_F(ServerTest, ClientsLoadAndUnloadModelsOnlyWhereTheyMay) {
  const auto stub = [&] {
    return inference::GRPCInferenceService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->grpc_port()), grpc::InsecureChannelCredentials()));
  };
  const auto load = [&](const std::string& name) {
    grpc::ClientContext context;
    inference::RepositoryModelLoadRequest request;
    request.set_model_name(name);
    inference::RepositoryModelLoadResponse response;
    return stub()->RepositoryModelLoad(&context, request, &response).error_code();
  };
  const auto unload = [&](const std::string& name) {
    grpc::ClientContext context;
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name(name);
    inference::RepositoryModelUnloadResponse response;
    return stub()->RepositoryModelUnload(&context, request, &response).error_code();
  };
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_EQ(load("tiny"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(unload("tiny"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(client_->ListModels()->models_size() == 1);

  options_.model_control = true;
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_EQ(unload("tiny"), grpc::StatusCode::OK);
  EXPECT_EQ(client_->ListModels()->models_size(), 0);
  EXPECT_EQ(HealthClient(server_->grpc_port()).Check("tiny"), HealthClient::kNotServing);
  EXPECT_EQ(unload("tiny"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(load("tiny"), grpc::StatusCode::OK);
  EXPECT_EQ(client_->ListModels()->models_size(), 1);
  EXPECT_EQ(HealthClient(server_->grpc_port()).Check("tiny"), HealthClient::kServing);
  EXPECT_EQ(load("nobody"), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, MetricsTellWhatHappened) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::ClassifyRequest request;
  for (int i = 0; i < 3; ++i) request.add_images()->set_encoded(Png(i));
  request.add_images()->set_encoded("garbage");
  ASSERT_TRUE(client_->Classify(request).ok());
  request.set_model("nobody");
  ASSERT_FALSE(client_->Classify(request).ok());
  ASSERT_TRUE(client_->ListModels().ok());

  EXPECT_EQ(Sample(R"(ckn_requests_total{code="OK",method="Classify"})"), 1);
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="NOT_FOUND",method="Classify"})"), 1);
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="OK",method="ListModels"})"), 1);
  EXPECT_EQ(Sample("ckn_request_duration_seconds_count{method=\"Classify\"}"), 1);
  EXPECT_EQ(Sample("ckn_stage_duration_seconds_count{stage=\"queue\"}"), 1);
  EXPECT_EQ(Sample("ckn_stage_duration_seconds_count{stage=\"decode\"}"), 4);
  EXPECT_EQ(Sample("ckn_stage_duration_seconds_count{stage=\"compute\"}"), 3);
  EXPECT_EQ(Sample(R"(ckn_images_total{model="tiny",outcome="ok"})"), 3);
  EXPECT_EQ(Sample(R"(ckn_images_total{model="tiny",outcome="invalid"})"), 1);
  EXPECT_EQ(Sample("ckn_images_total{model=\"(unknown)\",outcome=\"invalid\"}"), 4);
  EXPECT_EQ(Sample("ckn_in_flight_requests"), 0);
  EXPECT_EQ(Sample("ckn_queue_length"), 0);
  EXPECT_EQ(Sample("ckn_models_loaded"), 1);
  EXPECT_EQ(Sample("ckn_ready"), 1);
  EXPECT_EQ(Sample("ckn_build_info{version=\"test\"}"), 1);
  EXPECT_EQ(HttpGet(server_->http_port(), "/healthz").code, 200);
  EXPECT_EQ(HttpGet(server_->http_port(), "/readyz").code, 200);
}

TEST_F(ServerTest, SecondServerOnAPortFailsAndNamesIt) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ServerOptions second = options_;
  second.listen.port = server_->grpc_port();
  const auto grpc_taken = Server::Start(second);
  EXPECT_EQ(grpc_taken.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(grpc_taken.status()),
              AllOf(HasSubstr("gRPC port"), HasSubstr(second.listen.ToString()), HasSubstr("in use")));

  second = options_;
  second.http->port = server_->http_port();
  const auto http_taken = Server::Start(second);
  EXPECT_EQ(http_taken.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(http_taken.status()),
              AllOf(HasSubstr("HTTP port"), HasSubstr(second.http->ToString()), HasSubstr("in use")));
  // The first one still serves.
  EXPECT_TRUE(client_->ListModels().ok());
}

TEST_F(ServerTest, DoesNotStartWithoutModels) {
  options_.models_folder = folder_.File("nowhere");
  EXPECT_EQ(Server::Start(options_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ServerTest, RunsWithoutAnHttpPort) {
  options_.http.reset();
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_EQ(server_->http_port(), 0);
  EXPECT_TRUE(client_->ListModels().ok());
}

TEST_F(ServerTest, ListensOnANameToo) {
  options_.listen.host = "localhost";
  options_.http->host = "localhost";
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_TRUE(client_->ListModels().ok());
}

TEST_F(ServerTest, CallsAfterStopAreUnavailable) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_TRUE(client_->ListModels().ok());
  server_->Stop();
  EXPECT_EQ(client_->ListModels().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ServerTest, StopAnswersEveryCallItHasTaken) {
  ASSERT_TRUE(
      WriteModelFile(TinyModel({.name = "slow", .height = 64, .width = 64, .filters = 128}), folder_.File("slow.ckn"))
          .ok());
  options_.drain_timeout = absl::InfiniteDuration();
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::ClassifyRequest request;
  request.set_model("slow");
  const std::string image = EncodePnm(TinyImage(TinyModel({.height = 64, .width = 64}), 1));
  for (int i = 0; i < 100; ++i) request.add_images()->set_encoded(image);
  absl::StatusOr<v1::ClassifyResponse> response = absl::UnknownError("no answer");
  std::thread caller([&] { response = client_->Classify(request); });
  while (Sample("ckn_in_flight_requests") == 0 && Sample(R"(ckn_requests_total{code="OK",method="Classify"})") == 0) {
    std::this_thread::yield();
  }
  server_->Stop();
  caller.join();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->results_size(), 100);
}

TEST_F(ServerTest, StopCancelsWhatIsLeftAfterTheDrainTimeout) {
  ASSERT_TRUE(
      WriteModelFile(TinyModel({.name = "slow", .height = 128, .width = 128, .filters = 256}), folder_.File("slow.ckn"))
          .ok());
  options_.drain_timeout = absl::Milliseconds(1);
  options_.threads = 1;
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::ClassifyRequest request;
  request.set_model("slow");
  const std::string image = EncodePnm(TinyImage(TinyModel({.height = 128, .width = 128}), 1));
  // Minutes of work: Stop() can only return because the rest is not computed.
  for (int i = 0; i < 1024; ++i) request.add_images()->set_encoded(image);
  absl::StatusOr<v1::ClassifyResponse> response = absl::UnknownError("no answer");
  std::thread caller([&] { response = client_->Classify(request); });
  while (Sample("ckn_stage_duration_seconds_count{stage=\"compute\"}") == 0) std::this_thread::yield();
  CapturedLog log;
  server_->Stop();
  caller.join();
  EXPECT_FALSE(response.ok());
  EXPECT_THAT(log.Take(), HasSubstr("1ms have passed (--drain-timeout-ms): cancelling 1 calls, and 0 bytes"));
}

TEST_F(ServerTest, HealthWatchersLearnOfTheStopAndDoNotDelayIt) {
  options_.drain_timeout = absl::Hours(1);
  ASSERT_NO_FATAL_FAILURE(Start());
  HealthClient health(server_->grpc_port());
  const auto watch = health.StartWatch("ckn.v1.Inference");
  EXPECT_EQ(watch->Next(), HealthClient::kServing);
  server_->Stop();
  EXPECT_EQ(watch->Next(), HealthClient::kNotServing);
  EXPECT_EQ(watch->Next(), HealthClient::kError);  // the end of the stream
}

}  // namespace
}  // namespace ckn
