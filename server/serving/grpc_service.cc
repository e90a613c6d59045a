#include "server/serving/grpc_service.h"

#include <memory>

#include "absl/time/time.h"
#include "server/serving/status_to_grpc.h"

namespace ckn {
namespace {

class GrpcCall final : public CallContext {
 public:
  explicit GrpcCall(grpc::CallbackServerContext* context)
      : context_(*context), deadline_(absl::FromChrono(context->deadline())) {}

  [[nodiscard]] bool Cancelled() const override { return context_.IsCancelled(); }
  [[nodiscard]] absl::Time Deadline() const override { return deadline_; }

 private:
  grpc::CallbackServerContext& context_;
  const absl::Time deadline_;
};

// Starts a call on the core. Finish() is what ends the life of context, request and response.
template <typename Start>
grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext* context, const Start& start) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const auto call = std::make_shared<GrpcCall>(context);
  start(*call, [call, reactor](const absl::Status& status) { reactor->Finish(StatusToGrpc(status)); });
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* GrpcService::Classify(grpc::CallbackServerContext* context,
                                                const v1::ClassifyRequest* request, v1::ClassifyResponse* response) {
  return Serve(context, [&](const CallContext& call, InferenceCore::Done done) {
    core_.Classify(call, *request, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* GrpcService::Encode(grpc::CallbackServerContext* context, const v1::EncodeRequest* request,
                                              v1::EncodeResponse* response) {
  return Serve(context, [&](const CallContext& call, InferenceCore::Done done) {
    core_.Encode(call, *request, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* GrpcService::ListModels(grpc::CallbackServerContext* context,
                                                  const v1::ListModelsRequest* /*request*/,
                                                  v1::ListModelsResponse* response) {
  return Serve(context, [&](const CallContext& call, InferenceCore::Done done) {
    core_.ListModels(call, response, std::move(done));
  });
}

}  // namespace ckn
