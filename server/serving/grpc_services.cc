#include "server/serving/grpc_services.h"

#include <memory>
#include <utility>

#include "server/serving/infer_stream.h"
#include "server/serving/status_to_grpc.h"

namespace ckn {
namespace {

// When a full queue is worth another try.
constexpr const char* kRetryAfterMs = "100";

// Starts a call on an API. Finish() is what ends the life of context, request and response.
template <typename Start>
grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext* context, const CallerAccess& access, const Start& start) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const auto call = std::make_shared<GrpcCall>(*context, access);
  start(*call, [call, reactor, context](const absl::Status& status) {
    // Understood by gRPC's own retries, where the client has them.
    if (absl::IsResourceExhausted(status)) context->AddTrailingMetadata("grpc-retry-pushback-ms", kRetryAfterMs);
    reactor->Finish(StatusToGrpc(status));
  });
  return reactor;
}

// What is known at once.
grpc::ServerUnaryReactor* Tell(grpc::CallbackServerContext* context) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* NativeService::Classify(grpc::CallbackServerContext* context,
                                                  const v1::ClassifyRequest* request, v1::ClassifyResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.Classify(call, *request, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* NativeService::Encode(grpc::CallbackServerContext* context, const v1::EncodeRequest* request,
                                                v1::EncodeResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.Encode(call, *request, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* NativeService::GetModel(grpc::CallbackServerContext* context,
                                                  const v1::GetModelRequest* request, v1::GetModelResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.GetModel(call, *request, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* NativeService::ListModels(grpc::CallbackServerContext* context,
                                                    const v1::ListModelsRequest* /*request*/,
                                                    v1::ListModelsResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.ListModels(call, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* OpenInferenceService::ServerLive(grpc::CallbackServerContext* context,
                                                           const inference::ServerLiveRequest* /*request*/,
                                                           inference::ServerLiveResponse* response) {
  response->set_live(true);
  return Tell(context);
}

grpc::ServerUnaryReactor* OpenInferenceService::ServerReady(grpc::CallbackServerContext* context,
                                                            const inference::ServerReadyRequest* /*request*/,
                                                            inference::ServerReadyResponse* response) {
  response->set_ready(api_.ServerReady());
  return Tell(context);
}

grpc::ServerUnaryReactor* OpenInferenceService::ModelReady(grpc::CallbackServerContext* context,
                                                           const inference::ModelReadyRequest* request,
                                                           inference::ModelReadyResponse* response) {
  response->set_ready(api_.ModelReady(*request));
  return Tell(context);
}

grpc::ServerUnaryReactor* OpenInferenceService::ServerMetadata(grpc::CallbackServerContext* context,
                                                               const inference::ServerMetadataRequest* /*request*/,
                                                               inference::ServerMetadataResponse* response) {
  api_.ServerMetadata(response);
  return Tell(context);
}

grpc::ServerUnaryReactor* OpenInferenceService::ModelMetadata(grpc::CallbackServerContext* context,
                                                              const inference::ModelMetadataRequest* request,
                                                              inference::ModelMetadataResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.ModelMetadata(call, *request, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* OpenInferenceService::ModelInfer(grpc::CallbackServerContext* context,
                                                           const inference::ModelInferRequest* request,
                                                           inference::ModelInferResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.ModelInfer(call, *request, response, std::move(done));
  });
}

grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>*
OpenInferenceService::ModelStreamInfer(grpc::CallbackServerContext* context) {
  return new InferStream(api_, *context, access_);  // NOLINT(cppcoreguidelines-owning-memory): deletes itself
}

grpc::ServerUnaryReactor* OpenInferenceService::ModelConfig(grpc::CallbackServerContext* context,
                                                            const inference::ModelConfigRequest* request,
                                                            inference::ModelConfigResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.ModelConfig(call, *request, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* OpenInferenceService::RepositoryIndex(grpc::CallbackServerContext* context,
                                                                const inference::RepositoryIndexRequest* request,
                                                                inference::RepositoryIndexResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.RepositoryIndex(call, *request, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* OpenInferenceService::RepositoryModelLoad(
    grpc::CallbackServerContext* context, const inference::RepositoryModelLoadRequest* request,
    inference::RepositoryModelLoadResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.RepositoryModelLoad(call, *request, response, std::move(done));
  });
}

grpc::ServerUnaryReactor* OpenInferenceService::RepositoryModelUnload(
    grpc::CallbackServerContext* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse* response) {
  return Serve(context, access_, [&](const CallContext& call, InferenceCore::Done done) {
    api_.RepositoryModelUnload(call, *request, response, std::move(done));
  });
}

}  // namespace ckn
