#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/serving/inference_core.h"
#include "server/serving/token_file.h"

namespace ckn {

// Who may call. Managers may also call.
struct CallerAccess {
  TokenFile* callers = nullptr;   // nullptr: everyone
  TokenFile* managers = nullptr;  // nullptr: whoever may call
};

// What gRPC knows about a call; lives no longer than its context. The headers x-request-id and traceparent (W3C Trace
// Context) come back to the client with the reply.
class GrpcCall final : public CallContext {
 public:
  // `access` must live as long as this.
  GrpcCall(grpc::CallbackServerContext& context, const CallerAccess& access);

  [[nodiscard]] bool Cancelled() const override { return context_.IsCancelled(); }
  [[nodiscard]] absl::Time Deadline() const override { return deadline_; }
  [[nodiscard]] bool MayCall() const override { return may_call_; }
  [[nodiscard]] bool MayManage() const override { return may_manage_; }
  [[nodiscard]] std::string_view RequestId() const override { return request_id_; }
  [[nodiscard]] std::string_view Traceparent() const override { return traceparent_; }
  [[nodiscard]] std::string_view Peer() const override { return peer_; }

 private:
  grpc::CallbackServerContext& context_;
  const absl::Time deadline_;
  const std::string peer_;
  bool may_call_ = true, may_manage_ = true;
  std::string request_id_, traceparent_;
};

}  // namespace ckn
