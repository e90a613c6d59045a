#pragma once

#include "ckn/v1/inference.grpc.pb.h"
#include "inference/open_inference.grpc.pb.h"
#include "server/serving/grpc_call.h"
#include "server/serving/native_api.h"
#include "server/serving/open_inference.h"
#include "server/serving/wire_message.h"

// The protocols over gRPC's callback API: hands calls on, and statuses back. Requests come as bytes, so that the caller
// and what they would take in memory are checked before they are parsed. The APIs, the core and the token files must
// outlive the server that a service is registered with. Whether the server lives and is ready may be asked by everyone.
namespace ckn {

// What all calls of a service share.
struct CallRules {
  CallRules(InferenceCore& the_core, const CallerAccess& the_access);

  InferenceCore& core;
  const CallerAccess access;
  const ParseLimits parse;
};

// Every method as bytes: gRPC's generated classes wrap one method each.
// clang-format off
using NativeServiceBase =
    v1::Inference::WithRawCallbackMethod_Classify<v1::Inference::WithRawCallbackMethod_Encode<
    v1::Inference::WithRawCallbackMethod_ClassifyStream<v1::Inference::WithRawCallbackMethod_EncodeStream<
    v1::Inference::WithRawCallbackMethod_GetModel<v1::Inference::WithRawCallbackMethod_ListModels<
    v1::Inference::Service>>>>>>;

using OpenInferenceServiceBase =
    inference::GRPCInferenceService::WithRawCallbackMethod_ServerLive<
    inference::GRPCInferenceService::WithRawCallbackMethod_ServerReady<
    inference::GRPCInferenceService::WithRawCallbackMethod_ModelReady<
    inference::GRPCInferenceService::WithRawCallbackMethod_ServerMetadata<
    inference::GRPCInferenceService::WithRawCallbackMethod_ModelMetadata<
    inference::GRPCInferenceService::WithRawCallbackMethod_ModelInfer<
    inference::GRPCInferenceService::WithRawCallbackMethod_ModelStreamInfer<
    inference::GRPCInferenceService::WithRawCallbackMethod_ModelConfig<
    inference::GRPCInferenceService::WithRawCallbackMethod_RepositoryIndex<
    inference::GRPCInferenceService::WithRawCallbackMethod_RepositoryModelLoad<
    inference::GRPCInferenceService::WithRawCallbackMethod_RepositoryModelUnload<
    inference::GRPCInferenceService::Service>>>>>>>>>>>;
// clang-format on

class NativeService final : public NativeServiceBase {
 public:
  NativeService(NativeApi& api, InferenceCore& core, const CallerAccess& access = {})
      : api_(api), rules_(core, access) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;
  using Stream = grpc::ServerBidiReactor<Bytes, Bytes>;

  Unary* Classify(Context* context, const Bytes* request, Bytes* response) override;
  Unary* Encode(Context* context, const Bytes* request, Bytes* response) override;
  Stream* ClassifyStream(Context* context) override;
  Stream* EncodeStream(Context* context) override;
  Unary* GetModel(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ListModels(Context* context, const Bytes* request, Bytes* response) override;

 private:
  NativeApi& api_;
  const CallRules rules_;
};

class OpenInferenceService final : public OpenInferenceServiceBase {
 public:
  OpenInferenceService(OpenInference& api, InferenceCore& core, const CallerAccess& access = {})
      : api_(api), rules_(core, access) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;
  using Stream = grpc::ServerBidiReactor<Bytes, Bytes>;

  Unary* ServerLive(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ServerReady(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ModelReady(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ServerMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ModelMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Unary* ModelInfer(Context* context, const Bytes* request, Bytes* response) override;
  Stream* ModelStreamInfer(Context* context) override;
  Unary* ModelConfig(Context* context, const Bytes* request, Bytes* response) override;
  Unary* RepositoryIndex(Context* context, const Bytes* request, Bytes* response) override;
  Unary* RepositoryModelLoad(Context* context, const Bytes* request, Bytes* response) override;
  Unary* RepositoryModelUnload(Context* context, const Bytes* request, Bytes* response) override;

 private:
  OpenInference& api_;
  const CallRules rules_;
};

}  // namespace ckn
