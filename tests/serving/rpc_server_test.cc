// Calls over a real connection, served by hand: what the transport does with them.
#include "server/serving/rpc_server.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "prometheus/gauge.h"
#include "server/serving/executor.h"
#include "server/serving/health.h"
#include "server/serving/ordered_stream.h"
#include "server/serving/unary_call.h"
#include "tests/serving/bytes_call.h"

namespace ckn {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::ElementsAre;
using ::testing::StartsWith;
using Stub = grpc::health::v1::Health::Stub;

class RpcServerTest : public ::testing::Test {
 protected:
  void Start(int queues = 1, const EventQueueOptions& options = {}) {
    health_.AddTo(server_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    ASSERT_TRUE(server_.Start(builder, queues, options));
    // So that what the client takes without being asked to is 64 KiB and does not grow.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    channel_ =
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
  }

  grpc::Status Call(const std::string& path, const std::string& bytes, std::string* reply = nullptr) {
    return testing::CallWithBytes(channel_, path, bytes, reply);
  }

  HealthCheckResponse::ServingStatus Check(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(Stub(channel_).Check(&context, request, &response).ok());
    return response.status();
  }

  prometheus::Gauge bytes_;
  Executor executor_{{.threads = 0, .max_queue = 8}, nullptr, &bytes_};
  Health health_;
  RpcServer server_{{}, &executor_};
  std::shared_ptr<grpc::Channel> channel_;
};

// A call of which its client reads nothing before it is asked to.
class UnreadCall {
 public:
  UnreadCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& path)
      : stub_(channel), stream_(stub_.PrepareCall(&context_, path, &queue_)) {
    stream_->StartCall(nullptr);
    Wait();
  }
  UnreadCall(const UnreadCall&) = delete;
  UnreadCall& operator=(const UnreadCall&) = delete;

  void Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    stream_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    EXPECT_TRUE(Wait());
  }
  // The length of the next message; 0: there is none.
  std::size_t Read() {
    grpc::ByteBuffer message;
    stream_->Read(&message, nullptr);
    return Wait() ? message.Length() : 0;
  }
  grpc::StatusCode Finish() {
    grpc::Status status;
    stream_->Finish(&status, nullptr);
    Wait();
    return status.error_code();
  }

 private:
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// More than gRPC takes of a call whose client does not read.
constexpr std::size_t kLargeReply = std::size_t{1} << 20;

void ReplyWithMuch(const std::shared_ptr<GrpcCall>& call) {
  ReadRequest(call, [call](grpc::ByteBuffer* /*bytes*/) {
    const grpc::Slice slice(std::string(kLargeReply, 'x'));
    call->WriteAndFinish(grpc::ByteBuffer(&slice, 1));
  });
}

void AwaitValue(const prometheus::Gauge& gauge, double value) {
  while (gauge.Value() != value) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(RpcServerTest, AnswersFromAnyThreadReachTheClient) {
  std::vector<std::thread> threads;
  server_.Add("/a.B/Echo", [&](const std::shared_ptr<GrpcCall>& call) {
    ReadRequest(call, [&, call](grpc::ByteBuffer* bytes) {
      threads.emplace_back([call, reply = *bytes] { call->WriteAndFinish(reply); });
    });
  });
  Start();
  for (int i = 0; i < 20; ++i) {
    std::string reply;
    EXPECT_TRUE(Call("/a.B/Echo", absl::StrCat("bytes ", i), &reply).ok());
    EXPECT_EQ(reply, absl::StrCat("bytes ", i));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RpcServerTest, SeveralQueuesServeSeveralClients) {
  server_.Add("/a.B/Echo", [](const std::shared_ptr<GrpcCall>& call) {
    ReadRequest(call, [call](grpc::ByteBuffer* bytes) { call->WriteAndFinish(*bytes); });
  });
  Start(3);
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&] {
      for (int i = 0; i < 50; ++i) good += Call("/a.B/Echo", "x").ok() ? 1 : 0;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good.load(), 200);
}

TEST_F(RpcServerTest, MethodsThatAreNotThereAreUnimplemented) {
  Start();
  const grpc::Status status = Call("/a.B/None", "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("/a.B/None"));
}

TEST_F(RpcServerTest, ACallWithoutARequestIsTheClientsFault) {
  server_.Add("/a.B/Echo", [](const std::shared_ptr<GrpcCall>& call) {
    ReadRequest(call, [call](grpc::ByteBuffer* bytes) { call->WriteAndFinish(*bytes); });
  });
  Start();
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(&context, "/a.B/Echo", &queue);
  grpc::Status status;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
  };
  stream->StartCall(nullptr);
  wait();
  stream->WritesDone(nullptr);
  wait();
  stream->Finish(&status, nullptr);
  wait();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "no request came");
}

TEST_F(RpcServerTest, ALargeReplyCountsAsInWorkUntilItsClientTakesIt) {
  server_.Add("/a.B/Much", ReplyWithMuch);
  Start(1, {.reply_timeout = absl::Hours(1)});
  UnreadCall call(channel_, "/a.B/Much");
  call.Write("x");
  AwaitValue(bytes_, kLargeReply);
  EXPECT_EQ(call.Read(), kLargeReply);
  EXPECT_EQ(call.Finish(), grpc::StatusCode::OK);
  AwaitValue(bytes_, 0);
}

TEST_F(RpcServerTest, ALargeReplyThatIsNotTakenInTimeIsGivenUp) {
  server_.Add("/a.B/Much", ReplyWithMuch);
  Start(1, {.reply_timeout = absl::Milliseconds(1)});  // and a second for its size
  health_.Set("", true);
  UnreadCall call(channel_, "/a.B/Much");
  const absl::Time begin = absl::Now();
  call.Write("x");
  AwaitValue(bytes_, kLargeReply);
  AwaitValue(bytes_, 0);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(900));
  while (call.Read() > 0) {  // gRPC gives the status only after what came before it
  }
  EXPECT_EQ(call.Finish(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
}

TEST_F(RpcServerTest, AnswersOfAStreamThatAreNotTakenInTimeEndIt) {
  server_.Add("/a.B/Stream", [](const std::shared_ptr<GrpcCall>& call) {
    OrderedStream::Serve(call, std::size_t{1} << 26,
                         [](const CallContext&, grpc::ByteBuffer* /*request*/, const OrderedStream::Done& done) {
                           const grpc::Slice slice(std::string(kLargeReply, 'x'));
                           done(grpc::ByteBuffer(&slice, 1));
                         });
  });
  Start(1, {.reply_timeout = absl::Milliseconds(1)});
  UnreadCall call(channel_, "/a.B/Stream");
  for (int i = 0; i < 3; ++i) call.Write("x");
  AwaitValue(bytes_, 3 * kLargeReply);
  AwaitValue(bytes_, 0);
  while (call.Read() > 0) {
  }
  EXPECT_EQ(call.Finish(), grpc::StatusCode::CANCELLED);
}

// Of a stream also small ones, of which there may be many.
TEST_F(RpcServerTest, SmallAnswersOfAStreamThatAreNotTakenInTimeEndIt) {
  server_.Add("/a.B/Stream", [](const std::shared_ptr<GrpcCall>& call) {
    OrderedStream::Serve(call, std::size_t{1} << 26,
                         [](const CallContext&, grpc::ByteBuffer* /*request*/, const OrderedStream::Done& done) {
                           const grpc::Slice slice(std::string(GrpcCall::kSmall, 'x'));
                           done(grpc::ByteBuffer(&slice, 1));
                         });
  });
  std::vector<std::string> slow;
  Start(1, {.reply_timeout = absl::Milliseconds(300),
            .on_reply_timeout = [&slow](std::string_view peer) { slow.emplace_back(peer); }});
  UnreadCall call(channel_, "/a.B/Stream");
  for (int i = 0; i < 20; ++i) call.Write("x");
  while (bytes_.Value() < 10 * GrpcCall::kSmall) absl::SleepFor(absl::Milliseconds(1));
  AwaitValue(bytes_, 0);
  while (call.Read() > 0) {
  }
  EXPECT_EQ(call.Finish(), grpc::StatusCode::CANCELLED);
  server_.Shutdown(absl::Now());
  EXPECT_THAT(slow, ElementsAre(StartsWith("ipv4:127.0.0.1:")));
}

// gRPC frees an alarm that is destroyed while what it does when due is about to run.
TEST_F(RpcServerTest, CallsMayEndWhenTheTimeOfTheirRepliesDoes) {
  constexpr absl::Duration kTimeout = absl::Milliseconds(20);
  Start(1, {.reply_timeout = kTimeout});
  health_.Set("", true);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
    const absl::Time begin = absl::Now();
    for (int i = 0; i < 100; ++i) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      watches.push_back(Stub(channel_).Watch(contexts.back().get(), HealthCheckRequest()));
    }
    // Among the times at which the replies have to be taken, most of which are a little later.
    absl::SleepFor(begin + kTimeout + absl::Milliseconds(round) - absl::Now());
    for (const auto& context : contexts) context->TryCancel();
    for (const auto& watch : watches) watch->Finish();
  }
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
}

TEST_F(RpcServerTest, ADeadlineMayBeFarAway) {
  health_.Set("", true);
  Start();
  for (const int hours : {1, 2'070'000, 99'999'999}) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_hours(hours, GPR_TIMESPAN)));
    HealthCheckResponse response;
    EXPECT_TRUE(Stub(channel_).Check(&context, HealthCheckRequest(), &response).ok()) << hours;
  }
}

TEST_F(RpcServerTest, CallsAreAnsweredWhileThereIsABacklog) {
  // Of a second, which nobody works off.
  ASSERT_TRUE(
      executor_
          .Submit(
              {.items = 10000, .estimate = absl::Microseconds(100), .run = [](std::size_t /*item*/) {}, .done = [] {}})
          .ok());
  Start();
  health_.Set("", true);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
}

TEST_F(RpcServerTest, WhatIsLeftAtTheDeadlineIsCancelled) {
  std::shared_ptr<GrpcCall> left;
  absl::Notification came, ended;
  server_.Add("/a.B/Late", [&](const std::shared_ptr<GrpcCall>& call) {
    call->WhenDone([&] { ended.Notify(); });
    left = call;
    came.Notify();
  });
  Start();
  std::thread client([&] { EXPECT_FALSE(Call("/a.B/Late", "").ok()); });
  came.WaitForNotification();
  std::thread worker([&] {
    ended.WaitForNotification();
    EXPECT_TRUE(left->Cancelled());
    // Its answer comes too late and does no harm.
    left->Finish(absl::OkStatus());
    left.reset();
  });
  server_.Shutdown(absl::Now() + absl::Milliseconds(20));
  worker.join();
  client.join();
}

TEST_F(RpcServerTest, ChecksTellTheHealthOfAName) {
  Start();
  health_.Set("", true);
  health_.Set("m", true);
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
  health_.Set("m", false);
  EXPECT_EQ(Check("m"), HealthCheckResponse::NOT_SERVING);
  HealthCheckRequest unknown;
  unknown.set_service("other");
  HealthCheckResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(Stub(channel_).Check(&context, unknown, &response).error_code(), grpc::StatusCode::NOT_FOUND);
  health_.StopServing();
  health_.Set("m", true);
  EXPECT_EQ(Check("m"), HealthCheckResponse::NOT_SERVING) << "for good";
}

TEST_F(RpcServerTest, AHealthRequestThatIsTooLongIsRefused) {
  Start();
  HealthCheckRequest request;
  request.set_service(std::string(100000, 'x'));
  for (const char* const method : {"Check", "Watch"}) {
    EXPECT_EQ(Call(absl::StrCat("/grpc.health.v1.Health/", method), request.SerializeAsString()).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT)
        << method;
  }
}

TEST_F(RpcServerTest, WatchersAreToldOfEachChangeAndOfTheEnd) {
  Start();
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("m");
  Stub stub(channel_);
  const auto watch = stub.Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  for (const bool serving : {true, false, true}) {
    health_.Set("m", serving);
    health_.Set("other", serving);
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  }
  health_.Set("m", true);  // nothing new
  health_.StopServing();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  health_.EndWatches();
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  // Nor does one that comes later stay.
  grpc::ClientContext late_context;
  const auto late = stub.Watch(&late_context, request);
  while (late->Read(&response)) {
  }
  EXPECT_EQ(late->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RpcServerTest, WatchersThatLeaveAreForgotten) {
  Start();
  Stub stub(channel_);
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    const auto watch = stub.Watch(&context, {});
    HealthCheckResponse response;
    if (i % 2 == 0) {
      EXPECT_TRUE(watch->Read(&response));
    }
    context.TryCancel();
    EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
    health_.Set("", i % 4 == 0);
  }
  // Otherwise this would wait for them.
  server_.Shutdown(absl::Now() + absl::Minutes(5));
}

}  // namespace
}  // namespace ckn
