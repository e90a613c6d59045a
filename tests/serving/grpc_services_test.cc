// The service on a real gRPC server with workers driven by hand: what happens to a call whose client stops waiting.
#include "server/serving/grpc_services.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "ckn/v1/inference.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "inference/open_inference.grpc.pb.h"
#include "server/serving/model_loader.h"
#include "tests/serving/bytes_call.h"
#include "tests/serving/fakes.h"
#include "tests/testing/prometheus_text.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::ckn::testing::EncodePnm;
using ::ckn::testing::FakeClock;
using ::ckn::testing::ParsePrometheusText;
using ::ckn::testing::TempDir;
using ::ckn::testing::TinyImage;
using ::ckn::testing::TinyModel;

class NativeServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const TempDir folder;
    ASSERT_TRUE(WriteModelFile(TinyModel(), folder.File("tiny.ckn")).ok());
    const absl::Status status = ModelLoader(folder.path(), models_, metrics_).LoadAll();
    ASSERT_TRUE(status.ok()) << status;

    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    server_ = std::make_unique<RpcServer>();
    AddNativeService(api_, core_, *server_);
    AddOpenInferenceService(open_api_, core_, *server_);
    ASSERT_TRUE(server_->Start(builder));
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
    stub_ = v1::Inference::NewStub(channel_);
    open_stub_ = inference::GRPCInferenceService::NewStub(channel_);
    request_.add_images()->set_encoded(EncodePnm(TinyImage(TinyModel(), 1)));
  }

  void TearDown() override {
    // Requests that came in late may still be waiting, and the server for them.
    std::atomic<bool> done{false};
    std::thread worker([&] {
      while (!done.load()) {
        if (!executor_.RunOne()) std::this_thread::yield();
      }
    });
    server_.reset();
    done.store(true);
    worker.join();
  }

  void WaitForQueue(std::size_t length) {
    while (executor_.queue_length() < length) std::this_thread::yield();
  }

  grpc::Status CallWithBytes(const std::string& method, const std::string& bytes) {
    return testing::CallWithBytes(channel_, method, bytes);
  }

  double Sample(const std::string& name) { return ParsePrometheusText(metrics_.Text()).at(name); }

  FakeClock clock_{absl::Now()};
  ModelRegistry models_;
  Metrics metrics_{"test"};
  Executor executor_{{.threads = 0, .max_queue = 4}, nullptr};
  InferenceCore core_{models_, executor_, metrics_, clock_, {}};
  NativeApi api_{core_};
  OpenInference open_api_{core_, "test", [] { return true; }};
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::Inference::Stub> stub_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> open_stub_;
  v1::ClassifyRequest request_;
};

// Streams, with workers that the test drives.
class InferStreamTest : public NativeServiceTest {
 protected:
  static inference::ModelInferRequest Request(const std::string& id) {
    inference::ModelInferRequest request;
    request.set_id(id);
    auto& tensor = *request.add_inputs();
    tensor.set_name("image");
    tensor.set_datatype("BYTES");
    tensor.add_shape(1);
    tensor.mutable_contents()->add_bytes_contents(EncodePnm(TinyImage(TinyModel(), 1)));
    return request;
  }

  void WaitForCalls(std::int64_t calls) {
    while (core_.calls_begun() < calls) std::this_thread::yield();
  }
};

TEST_F(InferStreamTest, AnswersComeInTheOrderOfTheRequests) {
  grpc::ClientContext context;
  const auto stream = open_stub_->ModelStreamInfer(&context);
  for (const char* const id : {"a", "b", "c"}) ASSERT_TRUE(stream->Write(Request(id)));
  inference::ModelInferRequest wrong = Request("d");
  wrong.set_model_name("other");
  ASSERT_TRUE(stream->Write(wrong));
  // The last one is refused at once, but its turn comes after the others'.
  WaitForCalls(4);
  EXPECT_EQ(executor_.queue_length(), 2U);
  inference::ModelStreamInferResponse response;
  for (const char* const id : {"a", "b", "c"}) {
    ASSERT_TRUE(executor_.RunOne());
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), id);
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().outputs_size(), 2);
  }
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "d");
  EXPECT_THAT(response.error_message(), ::testing::HasSubstr("NOT_FOUND"));
  ASSERT_TRUE(stream->Write(Request("e")));
  WaitForQueue(1);
  ASSERT_TRUE(executor_.RunOne());
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "e");
  ASSERT_TRUE(stream->WritesDone());
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferStreamTest, AClientThatDoesNotReadIsNotReadFromWithoutEnd) {
  constexpr std::int64_t kReadAhead = 16;
  grpc::ClientContext context;
  const auto stream = open_stub_->ModelStreamInfer(&context);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(stream->Write(Request(absl::StrCat(i))));
  WaitForCalls(kReadAhead);
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(core_.calls_begun(), kReadAhead);
  EXPECT_EQ(executor_.queue_length(), 2U) << "half of the queue is for others";
  ASSERT_TRUE(stream->WritesDone());
  inference::ModelStreamInferResponse response;
  std::atomic<bool> all_read{false};
  std::thread worker([&] {
    while (!all_read.load()) {
      if (!executor_.RunOne()) std::this_thread::yield();
    }
  });
  int answered = 0;
  while (stream->Read(&response)) {
    EXPECT_EQ(response.infer_response().id(), absl::StrCat(answered++));
    EXPECT_EQ(response.error_message(), "") << "none is refused";
  }
  EXPECT_EQ(answered, 40);
  all_read.store(true);
  worker.join();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferStreamTest, ACancelledStreamEndsAndLeavesNothing) {
  for (std::size_t round = 0; round < 20; ++round) {
    grpc::ClientContext context;
    const auto stream = open_stub_->ModelStreamInfer(&context);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->Write(Request("x")));
    WaitForQueue(std::min<std::size_t>(round + 1, 2));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  TearDown();
  EXPECT_EQ(core_.calls_in_flight(), 0);
  EXPECT_EQ(Sample("ckn_in_flight_requests"), 0);
}

TEST_F(InferStreamTest, NativeStreamsTellErrorsInTheirPlace) {
  grpc::ClientContext context;
  const auto stream = stub_->ClassifyStream(&context);
  v1::ClassifyRequest unknown = request_;
  unknown.set_model("other");
  for (const v1::ClassifyRequest& request : {request_, unknown, request_}) ASSERT_TRUE(stream->Write(request));
  WaitForCalls(3);
  while (executor_.RunOne()) {
  }
  v1::ClassifyStreamResponse response;
  for (const bool good : {true, false, true}) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.status().code(), good ? 0 : static_cast<int>(grpc::StatusCode::NOT_FOUND));
    EXPECT_EQ(response.response().results_size(), good ? 1 : 0);
  }
  ASSERT_TRUE(stream->WritesDone());
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());

  grpc::ClientContext encode_context;
  const auto encode = stub_->EncodeStream(&encode_context);
  v1::EncodeRequest to_encode;
  *to_encode.mutable_images() = request_.images();
  ASSERT_TRUE(encode->Write(to_encode));
  WaitForQueue(1);
  ASSERT_TRUE(executor_.RunOne());
  v1::EncodeStreamResponse encoded;
  ASSERT_TRUE(encode->Read(&encoded));
  EXPECT_GT(encoded.response().results(0).values_size(), 0);
  ASSERT_TRUE(encode->Write({}));
  ASSERT_TRUE(encode->Read(&encoded));
  EXPECT_EQ(encoded.status().code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT)) << "no images";
  ASSERT_TRUE(encode->WritesDone());
  EXPECT_TRUE(encode->Finish().ok());
}

TEST_F(NativeServiceTest, RequestsThatWouldTakeTooMuchMemoryAreRefusedBeforeTheyAreParsed) {
  std::string many_images;
  for (int i = 0; i < 1 << 20; ++i) many_images += std::string("\x12\x00", 2);
  const grpc::Status refused = CallWithBytes("/ckn.v1.Inference/Classify", many_images);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), ::testing::HasSubstr("ckn.v1.ClassifyRequest: more than 9216 elements"));
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="INVALID_ARGUMENT",method="Classify"})"), 1);
  std::string many_inputs;
  for (int i = 0; i < 1 << 20; ++i) many_inputs += std::string("\x2a\x00", 2);
  EXPECT_EQ(CallWithBytes("/inference.GRPCInferenceService/ModelInfer", many_inputs).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(CallWithBytes("/inference.GRPCInferenceService/ModelReady", many_inputs).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(NativeServiceTest, BytesThatAreNoMessageAreTheClientsFault) {
  for (const char* const method :
       {"/ckn.v1.Inference/Classify", "/ckn.v1.Inference/Encode", "/ckn.v1.Inference/GetModel",
        "/ckn.v1.Inference/ListModels", "/inference.GRPCInferenceService/ModelInfer",
        "/inference.GRPCInferenceService/ModelMetadata", "/inference.GRPCInferenceService/RepositoryIndex"}) {
    EXPECT_EQ(CallWithBytes(method, "\xff\xff").error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
  }
}

TEST_F(NativeServiceTest, AnswersWhenAWorkerHasRun) {
  grpc::ClientContext context;
  v1::ClassifyResponse response;
  absl::Notification done;
  grpc::Status result;
  stub_->async()->Classify(&context, &request_, &response, [&](const grpc::Status& status) {
    result = status;
    done.Notify();
  });
  WaitForQueue(1);
  EXPECT_FALSE(done.HasBeenNotified());
  ASSERT_TRUE(executor_.RunOne());
  done.WaitForNotification();
  EXPECT_TRUE(result.ok()) << result.error_message();
  EXPECT_EQ(response.results_size(), 1);
}

TEST_F(NativeServiceTest, AFullQueueSaysWhenToTryAgain) {
  constexpr int kQueue = 4;
  std::vector<grpc::ClientContext> contexts(kQueue);
  std::vector<v1::ClassifyResponse> responses(kQueue);
  absl::BlockingCounter done(kQueue);
  for (int i = 0; i < kQueue; ++i) {
    stub_->async()->Classify(&contexts[i], &request_, &responses[i],
                             [&](const grpc::Status&) { done.DecrementCount(); });
  }
  WaitForQueue(kQueue);
  grpc::ClientContext context;
  v1::ClassifyResponse response;
  EXPECT_EQ(stub_->Classify(&context, request_, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto hint = context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
  ASSERT_NE(hint, context.GetServerTrailingMetadata().end());
  EXPECT_EQ(std::string(hint->second.data(), hint->second.size()), "100");
  while (executor_.RunOne()) {
  }
  done.Wait();
}

// A call of which the client sends nothing but its headers.
class WithoutRequest final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  grpc::Status Run(grpc::GenericStub& stub, const std::string& method) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(5)));
    stub.PrepareBidiStreamingCall(&context_, method, {}, this);
    StartCall();
    done_.WaitForNotification();
    return status_;
  }

 private:
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }

  grpc::ClientContext context_;
  grpc::Status status_;
  absl::Notification done_;
};

// Who may not call must not be able to keep the server busy with what it sends.
TEST_F(NativeServiceTest, WhoMayNotCallIsRefusedBeforeTheRequestIsRead) {
  const TempDir folder;
  const std::string tokens = folder.File("tokens");
  std::ofstream(tokens) << "a-token-that-is-long-enough\n";
  const absl::StatusOr<std::unique_ptr<TokenFile>> callers = TokenFile::Open(tokens, clock_);
  ASSERT_TRUE(callers.ok()) << callers.status();
  RpcServer server({.callers = callers->get()});
  AddNativeService(api_, core_, server);
  AddOpenInferenceService(open_api_, core_, server);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  ASSERT_TRUE(server.Start(builder));
  grpc::GenericStub stub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  for (const char* const method :
       {"/ckn.v1.Inference/Classify", "/ckn.v1.Inference/ListModels", "/ckn.v1.Inference/ClassifyStream",
        "/inference.GRPCInferenceService/ModelInfer", "/inference.GRPCInferenceService/RepositoryIndex"}) {
    EXPECT_EQ(WithoutRequest().Run(stub, method).error_code(), grpc::StatusCode::UNAUTHENTICATED) << method;
  }
  EXPECT_EQ(Sample("ckn_requests_total{code=\"UNAUTHENTICATED\",method=\"Classify\"}"), 1);
}

TEST_F(NativeServiceTest, CallCancelledByItsClientIsNotComputed) {
  const auto cancelled = [&] { return Sample(R"(ckn_requests_total{code="CANCELLED",method="Classify"})"); };
  // The news of a cancellation travels on its own: a worker may be faster, but not every time.
  int calls = 0;
  while (calls < 100 && cancelled() == 0) {
    ++calls;
    grpc::ClientContext context;
    v1::ClassifyResponse response;
    absl::Notification done;
    grpc::Status result;
    stub_->async()->Classify(&context, &request_, &response, [&](const grpc::Status& status) {
      result = status;
      done.Notify();
    });
    WaitForQueue(1);
    context.TryCancel();
    done.WaitForNotification();
    EXPECT_EQ(result.error_code(), grpc::StatusCode::CANCELLED);
    // An unrelated call on the same connection, so that the server has read past the cancellation.
    grpc::ClientContext other;
    v1::ListModelsResponse models;
    EXPECT_TRUE(stub_->ListModels(&other, {}, &models).ok());
    ASSERT_TRUE(executor_.RunOne());
  }
  EXPECT_EQ(cancelled(), 1);
  EXPECT_EQ(Sample(R"(ckn_images_total{model="tiny",outcome="expired"})"), 1);
  EXPECT_EQ(Sample("ckn_stage_duration_seconds_count{stage=\"compute\"}"), calls - 1);
  EXPECT_EQ(Sample("ckn_in_flight_requests"), 0);
}

TEST_F(NativeServiceTest, CallPastItsDeadlineIsNotComputed) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Milliseconds(100)));
  v1::ClassifyResponse response;
  // Nothing runs the queue, so the call can only end by its deadline.
  EXPECT_EQ(stub_->Classify(&context, request_, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  // The server counts the time from the call's arrival, so by its clock the deadline is a little later.
  clock_.Advance(absl::Seconds(1));
  // The call may have expired before it reached the server; then there is nothing to run.
  while (executor_.RunOne()) {
  }
  EXPECT_EQ(Sample("ckn_stage_duration_seconds_count{stage=\"compute\"}"), 0);
  EXPECT_EQ(Sample(R"(ckn_requests_total{code="OK",method="Classify"})"), 0);
}

}  // namespace
}  // namespace ckn
