#include "server/serving/grpc_call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/time/clock.h"
#include "server/serving/status_to_grpc.h"

namespace ckn {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;
// For gRPC to end a cancelled call, if it can.
constexpr std::chrono::seconds kCancelTime(1);
// Version, trace, parent and flags: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.
constexpr std::string_view kTraceparentShape = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";

bool IsTraceparent(std::string_view text) {
  const auto fits = [](char got, char shape) {
    return shape == 'h' ? (got >= '0' && got <= '9') || (got >= 'a' && got <= 'f') : got == shape;
  };
  return text.size() == kTraceparentShape.size() &&
         std::equal(text.begin(), text.end(), kTraceparentShape.begin(), fits);
}

bool IsRequestId(std::string_view text) {
  const auto visible = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; };
  return !text.empty() && text.size() <= kMaxRequestIdBytes && std::all_of(text.begin(), text.end(), visible);
}

// The standard library's type ends in the year 2262, before some deadlines.
absl::Time Time(gpr_timespec time) {
  if (gpr_time_cmp(time, gpr_inf_future(time.clock_type)) >= 0) return absl::InfiniteFuture();
  time = gpr_convert_clock_type(time, GPR_CLOCK_REALTIME);
  return absl::FromUnixSeconds(time.tv_sec) + absl::Nanoseconds(time.tv_nsec);
}

std::string Header(const grpc::ServerContextBase& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace

void GrpcCall::Accept(grpc::AsyncGenericService& service, EventQueue& queue, const CallerAccess& access,
                      Accepted accepted) {
  const std::shared_ptr<GrpcCall> call(new GrpcCall(queue));
  void* const done = EventQueue::Tag([call](bool /*ok*/) {
    call->cancelled_.store(call->context_.IsCancelled(), std::memory_order_relaxed);
    call->done_ = true;
    if (!call->write_due_ && call->write_alarm_ != nullptr) call->write_alarm_->Cancel();
    if (const auto then = std::exchange(call->when_done_, nullptr)) then();
  });
  call->context_.AsyncNotifyWhenDone(done);
  void* const begun = EventQueue::Tag([call, access, done, accepted = std::move(accepted)](bool ok) {
    if (!ok) return EventQueue::Drop(done);  // a call that does not begin does not end
    call->Begin(access);
    accepted(call);
  });
  service.RequestCall(&call->context_, &call->stream_, &queue.queue(), &queue.queue(), begun);
}

void GrpcCall::Begin(const CallerAccess& access) {
  deadline_ = Time(context_.raw_deadline());
  peer_ = context_.peer();
  if (access.callers != nullptr || access.managers != nullptr) {
    const std::string authorization = Header(context_, "authorization");
    const bool manager = access.managers != nullptr && access.managers->Allows(authorization);
    may_call_ = manager || access.callers == nullptr || access.callers->Allows(authorization);
    may_manage_ = manager || (access.managers == nullptr && may_call_);
  }
  if (std::string id = Header(context_, "x-request-id"); IsRequestId(id)) {
    context_.AddInitialMetadata("x-request-id", id);
    request_id_ = std::move(id);
  }
  if (std::string trace = Header(context_, "traceparent"); IsTraceparent(trace)) {
    context_.AddInitialMetadata("traceparent", trace);
    traceparent_ = std::move(trace);
  }
}

void GrpcCall::Read(grpc::ByteBuffer* message, Then then) {
  queue_.Run([call = shared_from_this(), message, then = std::move(then)]() mutable {
    GrpcCall& self = *call;
    self.stream_.Read(message,
                      EventQueue::Tag([call = std::move(call), then = std::move(then)](bool ok) { then(ok); }));
  });
}

void GrpcCall::Write(const grpc::ByteBuffer& message, Then then) {
  queue_.Run([call = shared_from_this(), message, then = std::move(then)]() mutable {
    GrpcCall& self = *call;
    self.BeginWrite(message);
    self.stream_.Write(message, EventQueue::Tag([call = std::move(call), then = std::move(then)](bool ok) {
                         call->EndWrite();
                         then(ok);
                       }));
  });
}

void GrpcCall::WriteAndFinish(const grpc::ByteBuffer& message) {
  // Now, not when the events' thread comes to it: until then nothing else counts its memory.
  const bool large = message.Length() > kSmall;
  std::shared_ptr<void> held = large ? Hold(message) : nullptr;
  queue_.Run([call = shared_from_this(), message, large, held = std::move(held)]() mutable {
    if (large) call->BeginWrite(message);
    call->stream_.WriteAndFinish(message, {}, grpc::Status::OK,
                                 EventQueue::Tag([call, held = std::move(held)](bool /*ok*/) { call->EndWrite(); }));
  });
}

void GrpcCall::BeginWrite(const grpc::ByteBuffer& message) {
  const absl::Duration timeout = queue_.options().reply_timeout;
  if (timeout == absl::InfiniteDuration()) return;
  // Of a slow client, and of one that many replies share.
  constexpr double kBytesPerSecond = 1 << 20;
  constexpr double kSharedBytesPerSecond = 1 << 24;
  const absl::Duration time = timeout + absl::Seconds(static_cast<double>(message.Length()) / kBytesPerSecond) +
                              absl::Seconds(static_cast<double>(queue_.held()) / kSharedBytesPerSecond);
  write_due_ = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(time);
  if (write_alarm_ == nullptr) SetWriteAlarm();
}

void GrpcCall::EndWrite() {
  write_due_.reset();
  if (done_ && write_alarm_ != nullptr) write_alarm_->Cancel();
}

void GrpcCall::SetWriteAlarm() {
  const auto left = *write_due_ - std::chrono::steady_clock::now();
  const gpr_timespec due = gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(left).count(), GPR_TIMESPAN));
  write_alarm_ = std::make_unique<grpc::Alarm>();
  write_alarm_->Set(&queue_.queue(), due, EventQueue::Tag([call = shared_from_this()](bool is_due) {
    GrpcCall& self = *call;
    self.write_alarm_ = nullptr;
    if (!is_due || !self.write_due_) return;
    if (const auto now = std::chrono::steady_clock::now(); now >= *self.write_due_) {
      if (self.gave_up_) return self.queue_.options().disconnect(self.peer_);
      self.gave_up_ = true;
      self.queue_.options().on_reply_timeout(self.peer_);
      self.context_.TryCancel();
      self.write_due_ = now + kCancelTime;
    }
    self.SetWriteAlarm();
  }));
}

void GrpcCall::AddTrailer(const std::string& key, const std::string& value) {
  queue_.Run([call = shared_from_this(), key, value] { call->context_.AddTrailingMetadata(key, value); });
}

void GrpcCall::Finish(const absl::Status& status) {
  queue_.Run([call = shared_from_this(), status = StatusToGrpc(status)] {
    call->stream_.Finish(status, EventQueue::Tag([call](bool /*ok*/) {}));
  });
}

}  // namespace ckn
