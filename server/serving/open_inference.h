#pragma once

#include <functional>
#include <string>

#include "inference/open_inference.pb.h"
#include "server/serving/inference_core.h"

namespace ckn {

// The service inference.GRPCInferenceService (Open Inference Protocol, version 2) without a transport. Tensors, outputs
// and errors are documented in proto/inference/open_inference.proto; context, messages and `done` are as in
// InferenceCore.
class OpenInference {
 public:
  using Done = InferenceCore::Done;

  // `core` must outlive this object and every call. `ready`: whether the server takes calls; thread-safe.
  OpenInference(InferenceCore& core, std::string version, std::function<bool()> ready)
      : core_(core), version_(std::move(version)), ready_(std::move(ready)) {}

  [[nodiscard]] bool ServerReady() const { return ready_(); }
  [[nodiscard]] bool ModelReady(const inference::ModelReadyRequest& request) const;
  void ServerMetadata(inference::ServerMetadataResponse* response) const;

  void ModelMetadata(const CallContext& context, const inference::ModelMetadataRequest& request,
                     inference::ModelMetadataResponse* response, Done done);
  void ModelConfig(const CallContext& context, const inference::ModelConfigRequest& request,
                   inference::ModelConfigResponse* response, Done done);
  void RepositoryIndex(const CallContext& context, const inference::RepositoryIndexRequest& request,
                       inference::RepositoryIndexResponse* response, Done done);
  void ModelInfer(const CallContext& context, const inference::ModelInferRequest& request,
                  inference::ModelInferResponse* response, Done done);
  // One request of ModelStreamInfer. `done` always gets OK: an error is in the response.
  void ModelStreamInfer(const CallContext& context, const inference::ModelInferRequest& request,
                        inference::ModelStreamInferResponse* response, Done done);

 private:
  void Infer(Method method, const CallContext& context, const inference::ModelInferRequest& request,
             inference::ModelInferResponse* response, Done done);

  InferenceCore& core_;
  const std::string version_;
  const std::function<bool()> ready_;
};

}  // namespace ckn
