#pragma once

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/serving/inference_core.h"

namespace ckn {

// What gRPC knows about a call; lives no longer than its context.
class GrpcCall final : public CallContext {
 public:
  explicit GrpcCall(grpc::CallbackServerContext& context)
      : context_(context), deadline_(absl::FromChrono(context.deadline())) {}

  [[nodiscard]] bool Cancelled() const override { return context_.IsCancelled(); }
  [[nodiscard]] absl::Time Deadline() const override { return deadline_; }

 private:
  grpc::CallbackServerContext& context_;
  const absl::Time deadline_;
};

}  // namespace ckn
