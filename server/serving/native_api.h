#pragma once

#include "absl/status/statusor.h"
#include "ckn/v1/inference.pb.h"
#include "server/serving/inference_core.h"

namespace ckn {

// The pixels of one image of a request. INVALID_ARGUMENT: no content; cannot be decoded; sizes that are not positive,
// too large or do not match the data.
absl::StatusOr<ImageU8> ImageFromProto(const v1::Image& image, const InferenceLimits& limits);

// What a stream tells instead of a reply.
void SetError(const absl::Status& status, v1::ClassifyStreamResponse* response);
void SetError(const absl::Status& status, v1::EncodeStreamResponse* response);

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
  // One request of a stream. `done` always gets OK: an error is in the response.
  void ClassifyStream(const CallContext& context, const v1::ClassifyRequest& request,
                      v1::ClassifyStreamResponse* response, Done done);
  void EncodeStream(const CallContext& context, const v1::EncodeRequest& request, v1::EncodeStreamResponse* response,
                    Done done);
  void GetModel(const CallContext& context, const v1::GetModelRequest& request, v1::GetModelResponse* response,
                Done done);
  void ListModels(const CallContext& context, const v1::ListModelsRequest& request, v1::ListModelsResponse* response,
                  Done done);

 private:
  void Classify(Method method, const CallContext& context, const v1::ClassifyRequest& request,
                v1::ClassifyResponse* response, Done done);
  void Encode(Method method, const CallContext& context, const v1::EncodeRequest& request, v1::EncodeResponse* response,
              Done done);

  InferenceCore& core_;
};

}  // namespace ckn
