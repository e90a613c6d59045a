#pragma once

#include "absl/status/statusor.h"
#include "ckn/v1/inference.pb.h"
#include "server/serving/inference_core.h"

namespace ckn {

// The pixels of one image of a request. INVALID_ARGUMENT: no content; cannot be decoded; sizes that are not positive,
// too large or do not match the data.
absl::StatusOr<ImageU8> ImageFromProto(const v1::Image& image, const InferenceLimits& limits);

// The service ckn.v1.Inference without a transport. What each call does and which errors it has is documented in
// proto/ckn/v1/inference.proto; context, messages and `done` are as in InferenceCore.
class NativeApi {
 public:
  using Done = InferenceCore::Done;

  // `core` must outlive this object and every call.
  explicit NativeApi(InferenceCore& core) : core_(core) {}

  void Classify(const CallContext& context, const v1::ClassifyRequest& request, v1::ClassifyResponse* response,
                Done done);
  void Encode(const CallContext& context, const v1::EncodeRequest& request, v1::EncodeResponse* response, Done done);
  void GetModel(const CallContext& context, const v1::GetModelRequest& request, v1::GetModelResponse* response,
                Done done);
  void ListModels(const CallContext& context, v1::ListModelsResponse* response, Done done);

 private:
  InferenceCore& core_;
};

}  // namespace ckn
