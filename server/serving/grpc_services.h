#pragma once

#include "server/serving/inference_core.h"
#include "server/serving/native_api.h"
#include "server/serving/open_inference.h"
#include "server/serving/rpc_server.h"

// The protocols over gRPC: hands calls on, and statuses back. Requests come as bytes, so that the caller and what they
// would take in memory are checked before they are parsed. The APIs and the core must outlive the server.
namespace ckn {

// ckn.v1.Inference
void AddNativeService(NativeApi& api, InferenceCore& core, RpcServer& server);

// inference.GRPCInferenceService. Whether the server lives and is ready may be asked by everyone.
void AddOpenInferenceService(OpenInference& api, InferenceCore& core, RpcServer& server);

}  // namespace ckn
