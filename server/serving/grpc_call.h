#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/serving/event_queue.h"
#include "server/serving/inference_core.h"
#include "server/serving/token_file.h"

namespace ckn {

// Who may call. Managers may also call.
struct CallerAccess {
  TokenFile* callers = nullptr;   // nullptr: everyone
  TokenFile* managers = nullptr;  // nullptr: whoever may call
};

// One call of gRPC, unary or a stream, with messages as bytes. The headers x-request-id and traceparent (W3C Trace
// Context) come back to the client with the reply.
//
// Operations may be asked for on any thread, but of each kind only one at a time, and none after Finish() or
// WriteAndFinish(). What follows them runs on the queue's thread. The call lives until its last operation has ended and
// its last owner is gone.
class GrpcCall final : public CallContext, public std::enable_shared_from_this<GrpcCall> {
 public:
  using Then = EventQueue::Then;
  // Bytes of a message that is no more than small.
  static constexpr std::size_t kSmall = std::size_t{16} << 10;
  using Accepted = std::function<void(const std::shared_ptr<GrpcCall>& call)>;

  // Waits for the next call of the service. When the server stops before there is one, `accepted` does not run.
  static void Accept(grpc::AsyncGenericService& service, EventQueue& queue, const CallerAccess& access,
                     Accepted accepted);

  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  // "/package.Service/Method"
  [[nodiscard]] const std::string& path() const { return context_.method(); }

  // Not ok: the client has sent its last message, or the call is broken. `message` must live until then.
  void Read(grpc::ByteBuffer* message, Then then);
  // Not ok: the call is broken. A message that the client has not taken in EventQueueOptions::reply_timeout ends the
  // call.
  void Write(const grpc::ByteBuffer& message, Then then);
  // As Write(), but a small message may take longer: it is less than what a call takes, and gRPC has it off at once. A
  // large one counts as in work until it is taken.
  void WriteAndFinish(const grpc::ByteBuffer& message);
  void Finish(const absl::Status& status);
  // To go with Finish().
  void AddTrailer(const std::string& key, const std::string& value);

  // Executor::Hold() for a message that is to be written.
  [[nodiscard]] std::shared_ptr<void> Hold(const grpc::ByteBuffer& message) {
    return queue_.Hold(static_cast<std::int64_t>(message.Length()));
  }

  // To be run when the call has ended, in whatever way. Before the first operation; once.
  void WhenDone(std::function<void()> then) { when_done_ = std::move(then); }

  [[nodiscard]] bool Cancelled() const override { return cancelled_.load(std::memory_order_relaxed); }
  [[nodiscard]] absl::Time Deadline() const override { return deadline_; }
  [[nodiscard]] bool MayCall() const override { return may_call_; }
  [[nodiscard]] bool MayManage() const override { return may_manage_; }
  [[nodiscard]] std::string_view RequestId() const override { return request_id_; }
  [[nodiscard]] std::string_view Traceparent() const override { return traceparent_; }
  [[nodiscard]] std::string_view Peer() const override { return peer_; }

 private:
  explicit GrpcCall(EventQueue& queue) : queue_(queue), guest_(queue.Guest()) {}
  void Begin(const CallerAccess& access);
  // On the queue's thread: the only write there is begins, and has ended.
  void BeginWrite(const grpc::ByteBuffer& message);
  void EndWrite();
  // Looks at `write_due_` when it has come.
  void SetWriteAlarm();

  EventQueue& queue_;
  const std::shared_ptr<void> guest_;  // goes last
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  std::function<void()> when_done_;
  // Of the queue's thread. One alarm for all writes: it looks again if the one it was set for has ended. Only its own
  // event may free it, even once it is cancelled: gRPC frees it with what is about to run when it is due.
  std::unique_ptr<grpc::Alarm> write_alarm_;
  // Of the write under way. Not the time of day, which may be set.
  std::optional<std::chrono::steady_clock::time_point> write_due_;
  bool gave_up_ = false;  // on that write
  bool done_ = false;
  std::atomic<bool> cancelled_{false};
  absl::Time deadline_;
  std::string peer_;
  bool may_call_ = true, may_manage_ = true;
  std::string request_id_, traceparent_;
};

}  // namespace ckn
