#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "server/image/image.h"
#include "server/serving/access_log.h"
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
  // Whether the caller has shown that it may call at all, and manage models.
  [[nodiscard]] virtual bool MayCall() const { return true; }
  [[nodiscard]] virtual bool MayManage() const { return true; }
  // For the access log; empty: not known.
  [[nodiscard]] virtual std::string_view RequestId() const { return {}; }
  [[nodiscard]] virtual std::string_view Traceparent() const { return {}; }
  [[nodiscard]] virtual std::string_view Peer() const { return {}; }
};

// UNAUTHENTICATED: the caller may not call.
absl::Status CheckCaller(const CallContext& context);

// The model that a call asks for.
struct ModelKey {
  std::string_view name, version;
};

struct InferenceLimits {
  int max_images = 1024;                                    // per call
  std::int64_t max_message_bytes = std::int64_t{64} << 20;  // of a reply; the transport checks requests
  std::int64_t max_pixels = std::int64_t{1} << 24;          // height * width of one image
};

// What a call does with its images, by number from 0. Different images may be worked on at the same time.
struct ImageWork {
  std::function<absl::StatusOr<ImageU8>(int image)> decode;
  // How many pixels that makes, known beforehand: a small file may hold many. nullptr: not known.
  std::function<std::int64_t(int image)> pixels;
  // Keeps what it finds out about the image.
  std::function<absl::Status(int image, const ImageU8& pixels)> compute;
  // Instead, for an image that failed; the message begins with its number. nullptr: the reply has no place for that,
  // the first failure is the call's, and images that no worker has begun yet are left alone.
  std::function<void(int image, const absl::Status& status)> fail;
  // At the end of a call that has not failed; may be nullptr.
  std::function<void()> finish;
  bool patient = false;          // as in Job
  std::int64_t reply_bytes = 0;  // of the largest reply there may be, for which memory is kept free
};

// What all protocols have in common: checks, queueing, decoding and computing image by image, deadlines and
// cancellation, metrics. The protocols' messages are known to its users only (native_api.h, open_inference.h).
//
// Errors of a call: UNAUTHENTICATED the caller may not call; NOT_FOUND unknown model; INVALID_ARGUMENT no image or too
// many, no model named when there are several, and what ImageWork or its maker says; RESOURCE_EXHAUSTED the queue is
// full; DEADLINE_EXCEEDED the deadline passed before the work was done; CANCELLED; UNAVAILABLE draining. When a call
// holds exactly one image, that image's status is the call's.
//
// A call's context and messages must live until its `done` is called, which happens exactly once: on the calling thread
// when the call is refused, on a worker of the executor otherwise. On an error the response is empty.
class InferenceCore {
 public:
  using Done = std::function<void(const absl::Status&)>;
  // Checks the rest of a request, knowing its model, and says what to do with the images. The model lives until `done`.
  using Prepare = std::function<absl::StatusOr<ImageWork>(const ServedModel& model)>;

  // All references must outlive this object and every call; so must the access log, if there is one.
  InferenceCore(const ModelRegistry& models, Executor& executor, Metrics& metrics, const Clock& clock,
                const InferenceLimits& limits, const AccessLog* access_log = nullptr);

  // A call with images. An empty name means the only model there is, an empty version the latest. `request`: for its
  // size in memory.
  void Run(Method method, const CallContext& context, const ModelKey& model, int images,
           const google::protobuf::Message& request, google::protobuf::Message* response, const Prepare& prepare,
           Done done);
  // A call without; `body` fills the response, on the calling thread.
  void Answer(Method method, const CallContext& context, google::protobuf::Message* response,
              const std::function<absl::Status()>& body, Done done);
  // The same, but `body` may call the Done that it gets later, on any thread; it throws, if at all, before that.
  void AnswerLater(Method method, const CallContext& context, google::protobuf::Message* response,
                   const std::function<void(Done)>& body, Done done);

  // What Run() would say now of any call, before its request has been read: RESOURCE_EXHAUSTED, the queue is full.
  [[nodiscard]] absl::Status CheckRoom() const { return executor_.CheckRoom(); }

  // The bytes of a reply. INVALID_ARGUMENT when it would be longer than a message may be.
  [[nodiscard]] absl::StatusOr<std::int64_t> ReplySize(int images, std::int64_t bytes_per_image) const;

  [[nodiscard]] const InferenceLimits& limits() const { return limits_; }
  [[nodiscard]] const ModelRegistry& models() const { return models_; }

  // Calls that have begun so far, and those of them that have no reply yet.
  [[nodiscard]] std::int64_t calls_begun() const { return calls_begun_.load(); }
  [[nodiscard]] std::int64_t calls_in_flight() const { return calls_in_flight_.load(); }

 private:
  struct Call;

  std::shared_ptr<Call> Begin(Method method, const CallContext& context, google::protobuf::Message* response,
                              Done done);
  void End(Call& call, const absl::Status& result);
  absl::StatusOr<std::shared_ptr<const ServedModel>> CheckCall(const Call& call, const ModelKey& model, int images);
  // Why the call must not go on, if so.
  [[nodiscard]] absl::Status Interruption(const CallContext& context) const;

  // Hands the images to the executor; OK means that a worker will end the call.
  absl::Status Queue(const std::shared_ptr<Call>& call, int images, std::int64_t bytes);
  void RunImage(Call& call, int image);
  void Finish(Call& call);
  void LogAccess(const Call& call, absl::StatusCode code, double seconds) const;

  const ModelRegistry& models_;
  Executor& executor_;
  Metrics& metrics_;
  const Clock& clock_;
  const InferenceLimits limits_;
  FailureLog failure_log_;
  const AccessLog* const access_log_;
  std::atomic<std::int64_t> calls_begun_{0};
  std::atomic<std::int64_t> calls_in_flight_{0};
};

}  // namespace ckn
