#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "inference/open_inference.pb.h"
#include "server/serving/inference_core.h"

namespace ckn {

// What a stream tells instead of a reply.
void SetError(const absl::Status& status, inference::ModelStreamInferResponse* response);

// The service inference.GRPCInferenceService (Open Inference Protocol, version 2) without a transport. Tensors, outputs
// and errors are documented in proto/inference/open_inference.proto; context, messages and `done` are as in
// InferenceCore.
class OpenInference {
 public:
  using Done = InferenceCore::Done;

  // Loading and unloading of models, by name, which may take its time.
  struct ModelControl {
    std::function<void(const std::string&name, Done)> load, unload;
  };

  // `core` must outlive this object and every call. `ready`: whether the server takes calls; thread-safe. Without
  // `control`, clients may not load and unload models.
  OpenInference(InferenceCore& core, std::string version, std::function<bool()> ready,
                std::optional<ModelControl> control = std::nullopt)
      : core_(core), version_(std::move(version)), ready_(std::move(ready)), control_(std::move(control)) {}

  [[nodiscard]] bool ServerReady() const { return ready_(); }
  [[nodiscard]] bool ModelReady(const inference::ModelReadyRequest& request) const;
  void ServerMetadata(inference::ServerMetadataResponse* response) const;

  void ModelMetadata(const CallContext& context, const inference::ModelMetadataRequest& request,
                     inference::ModelMetadataResponse* response, Done done);
  void ModelConfig(const CallContext& context, const inference::ModelConfigRequest& request,
                   inference::ModelConfigResponse* response, Done done);
  void RepositoryIndex(const CallContext& context, const inference::RepositoryIndexRequest& request,
                       inference::RepositoryIndexResponse* response, Done done);
  void RepositoryModelLoad(const CallContext& context, const inference::RepositoryModelLoadRequest& request,
                           inference::RepositoryModelLoadResponse* response, Done done);
  void RepositoryModelUnload(const CallContext& context, const inference::RepositoryModelUnloadRequest& request,
                             inference::RepositoryModelUnloadResponse* response, Done done);
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
  const std::optional<ModelControl> control_;
};

}  // namespace ckn
