#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ckn/v1/inference.pb.h"
#include "server/serving/clock.h"
#include "server/serving/executor.h"
#include "server/serving/failure_log.h"
#include "server/serving/metrics.h"
#include "server/serving/model_registry.h"

namespace ckn {

// What the transport knows about a call while it runs. Thread-safe.
class CallContext {
 public:
  virtual ~CallContext() = default;
  // The client no longer waits.
  [[nodiscard]] virtual bool Cancelled() const = 0;
  // absl::InfiniteFuture() when there is none.
  [[nodiscard]] virtual absl::Time Deadline() const = 0;
};

struct InferenceLimits {
  int max_images = 1024;                                    // per call
  std::int64_t max_message_bytes = std::int64_t{64} << 20;  // of a reply; the transport checks requests
  std::int64_t max_pixels = std::int64_t{1} << 24;          // height * width of one image
};

// The pixels of one image of a request. INVALID_ARGUMENT: no content; cannot be decoded; sizes that are not positive,
// too large or do not match the data.
absl::StatusOr<ImageU8> ImageFromProto(const v1::Image& image, const InferenceLimits& limits);

// The service ckn.v1.Inference without a transport: checks, queueing, per-image status, metrics. What each call does
// and which errors it has is documented in proto/ckn/v1/inference.proto.
//
// A call's context, request and response must live until its `done` is called, which happens exactly once: on the
// calling thread when the call is refused, on a worker of the executor otherwise. On an error the response is empty.
class InferenceCore {
 public:
  using Done = std::function<void(const absl::Status&)>;

  // All references must outlive this object and every call.
  InferenceCore(const ModelRegistry& models, Executor& executor, Metrics& metrics, const Clock& clock,
                const InferenceLimits& limits);

  void Classify(const CallContext& context, const v1::ClassifyRequest& request, v1::ClassifyResponse* response,
                Done done);
  void Encode(const CallContext& context, const v1::EncodeRequest& request, v1::EncodeResponse* response, Done done);
  void ListModels(const CallContext& context, v1::ListModelsResponse* response, Done done);

  // Calls that have begun so far, and those of them that have no reply yet.
  [[nodiscard]] std::int64_t calls_begun() const { return calls_begun_.load(); }
  [[nodiscard]] std::int64_t calls_in_flight() const { return calls_in_flight_.load(); }

 private:
  struct Call;
  using Images = google::protobuf::RepeatedPtrField<v1::Image>;
  // Fills one result from one decoded image.
  template <typename Result>
  using Compute = std::function<absl::Status(const ImageU8&, Result*)>;

  std::shared_ptr<Call> Begin(Method method, const CallContext& context, google::protobuf::Message* response,
                              Done done);
  void End(Call& call, const absl::Status& status);
  absl::StatusOr<std::shared_ptr<const ServedModel>> CheckCall(const Call& call, const std::string& model,
                                                               const Images& images);
  absl::Status CheckReplySize(int images, std::int64_t bytes_per_image) const;
  absl::Status Interruption(const CallContext& context) const;

  // Hands the images to the executor; OK means that a worker will end the call.
  template <typename Result>
  absl::Status Queue(const std::shared_ptr<Call>& call, const Images& images,
                     google::protobuf::RepeatedPtrField<Result>* results, Compute<Result> compute);
  absl::Status RunImage(Call& call, const v1::Image& image, const std::function<absl::Status(const ImageU8&)>& compute);
  template <typename Result>
  void Finish(Call& call, const google::protobuf::RepeatedPtrField<Result>& results);

  const ModelRegistry& models_;
  Executor& executor_;
  Metrics& metrics_;
  const Clock& clock_;
  const InferenceLimits limits_;
  FailureLog failure_log_;
  std::atomic<std::int64_t> calls_begun_{0};
  std::atomic<std::int64_t> calls_in_flight_{0};
};

}  // namespace ckn
