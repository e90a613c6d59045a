#pragma once

#include "ckn/v1/inference.grpc.pb.h"
#include "server/serving/inference_core.h"

namespace ckn {

// ckn.v1.Inference over gRPC's callback API: only hands calls to the core and statuses back.
class GrpcService final : public v1::Inference::CallbackService {
 public:
  // `core` must outlive the server that this service is registered with.
  explicit GrpcService(InferenceCore& core) : core_(core) {}

  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* context, const v1::ClassifyRequest* request,
                                     v1::ClassifyResponse* response) override;
  grpc::ServerUnaryReactor* Encode(grpc::CallbackServerContext* context, const v1::EncodeRequest* request,
                                   v1::EncodeResponse* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;

 private:
  InferenceCore& core_;
};

}  // namespace ckn
