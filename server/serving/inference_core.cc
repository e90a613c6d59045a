#include "server/serving/inference_core.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/guarded.h"
#include "server/base/status.h"
#include "server/base/utf8.h"
#include "server/serving/wire_message.h"

namespace ckn {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

double SecondsSince(SteadyTime start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// How long the largest image of a call takes about. The files are small and have few pixels, or it is not known how
// long: a few KiB may decode to a hundred MiB, or go over each pixel a hundred times, and who has the image does
// nothing else then.
absl::Duration Estimate(const ServedModel& model, int images, std::int64_t bytes, const ImageWork& work) {
  constexpr std::int64_t kSoonRead = std::int64_t{1} << 16;
  constexpr std::int64_t kSoonDecoded = std::int64_t{1} << 14;
  constexpr double kPixelsPerMicrosecond = 200;
  constexpr double kOperationsPerMicrosecond = 1.5e5;
  if (bytes > images * kSoonRead || !work.pixels) return absl::InfiniteDuration();
  std::int64_t pixels = 0;
  for (int image = 0; image < images; ++image) pixels = std::max(pixels, work.pixels(image));
  if (pixels > kSoonDecoded) return absl::InfiniteDuration();
  return absl::Microseconds(10 + static_cast<double>(pixels) / kPixelsPerMicrosecond +
                            model.pipeline.operations() / kOperationsPerMicrosecond);
}

// What a client sees and a log line holds of a message; some are made from what the client sent.
constexpr std::size_t kMaxMessageBytes = 2048;

// Of a name that a client sent and no model has.
constexpr std::size_t kMaxLoggedName = 256;

absl::Status Shortened(const absl::Status& status) {
  if (status.message().size() <= kMaxMessageBytes) return status;
  const std::string message(status.message());
  return {status.code(), std::string(Utf8Prefix(message, kMaxMessageBytes)) + " ..."};
}

ImageOutcome Outcome(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return ImageOutcome::kOk;
    case absl::StatusCode::kInvalidArgument:
      return ImageOutcome::kInvalid;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return ImageOutcome::kExpired;
    default:
      return ImageOutcome::kError;
  }
}

}  // namespace

absl::Status CheckCaller(const CallContext& context) {
  if (context.MayCall()) return absl::OkStatus();
  return absl::UnauthenticatedError(
      "expected the header \"authorization: Bearer TOKEN\" with a token of this server's");
}

struct InferenceCore::Call {
  Call(Method m, const CallContext& c, google::protobuf::Message* r, Done d)
      : method(m), context(c), response(r), done(std::move(d)) {}

  const Method method;
  const CallContext& context;
  google::protobuf::Message* const response;
  const Done done;
  const SteadyTime begin = std::chrono::steady_clock::now();
  ModelKey asked;
  int images = 0;
  std::shared_ptr<const ServedModel> model;
  ImageWork work;
  // [images]; each is written by the worker that has the image.
  std::vector<absl::Status> statuses;
  std::int64_t request_bytes = 0;
  SteadyTime queued;
  std::atomic<bool> taken{false};   // by a worker
  std::atomic<bool> failed{false};  // as a whole, by one of its images
  // For the access log.
  double queue_seconds = 0;
  std::atomic<double> decode_seconds{0}, compute_seconds{0};
};

InferenceCore::InferenceCore(const ModelRegistry& models, Executor& executor, Metrics& metrics, const Clock& clock,
                             const InferenceLimits& limits, const AccessLog* access_log)
    : models_(models),
      executor_(executor),
      metrics_(metrics),
      clock_(clock),
      limits_(limits),
      failure_log_(clock),
      access_log_(access_log) {}

std::shared_ptr<InferenceCore::Call> InferenceCore::Begin(Method method, const CallContext& context,
                                                          google::protobuf::Message* response, Done done) {
  calls_in_flight_.fetch_add(1);
  calls_begun_.fetch_add(1);
  metrics_.in_flight().Increment();
  return std::make_shared<Call>(method, context, response, std::move(done));
}

void InferenceCore::End(Call& call, const absl::Status& result) {
  const absl::Status status = Shortened(result);
  if (!status.ok()) call.response->Clear();
  // Before done(): once the client has its reply, the metrics count the call.
  failure_log_.Record(call.method, status);
  const double seconds = SecondsSince(call.begin);
  metrics_.CountRequest(call.method, status.code(), seconds);
  metrics_.in_flight().Decrement();
  if (access_log_ != nullptr) LogAccess(call, status.code(), seconds);
  call.done(status);
  calls_in_flight_.fetch_sub(1);
}

void InferenceCore::LogAccess(const Call& call, absl::StatusCode code, double seconds) const {
  AccessRecord record{.end = clock_.Now(),
                      .method = call.method,
                      .code = code,
                      .request_id = call.context.RequestId(),
                      .traceparent = call.context.Traceparent(),
                      .peer = call.context.Peer(),
                      .model = {},
                      .version = {},
                      .images = call.images,
                      .request_bytes = call.request_bytes,
                      .total = seconds,
                      .queue = call.queue_seconds,
                      .decode = call.decode_seconds.load(),
                      .compute = call.compute_seconds.load()};
  if (call.model != nullptr) {
    record.model = call.model->info.name();
    record.version = call.model->info.version();
  } else {
    record.model = Utf8Prefix(call.asked.name, kMaxLoggedName);
    record.version = Utf8Prefix(call.asked.version, kMaxLoggedName);
  }
  access_log_->Record(record);
}

absl::Status InferenceCore::Interruption(const CallContext& context) const {
  if (clock_.Now() >= context.Deadline()) {
    return absl::DeadlineExceededError("the deadline passed before the work was done");
  }
  if (context.Cancelled()) return absl::CancelledError("the call was cancelled");
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const ServedModel>> InferenceCore::CheckCall(const Call& call, const ModelKey& model,
                                                                            int images) {
  CKN_RETURN_IF_ERROR(CheckCaller(call.context));
  CKN_RETURN_IF_ERROR(Interruption(call.context));
  if (images == 0) return absl::InvalidArgumentError("images: none, expected at least one");
  if (images > limits_.max_images) {
    return absl::InvalidArgumentError(
        absl::StrCat("images: ", images, " in one call, the limit is ", limits_.max_images));
  }
  auto found = models_.Find(model.name, model.version);
  if (absl::IsNotFound(found.status())) {
    metrics_.CountImages({}, ImageOutcome::kInvalid, static_cast<std::size_t>(images));
  }
  return found;
}

absl::StatusOr<std::int64_t> InferenceCore::ReplySize(int images, std::int64_t bytes_per_image) const {
  if (bytes_per_image <= limits_.max_message_bytes / images) return images * bytes_per_image;
  return absl::InvalidArgumentError(absl::StrCat("images: the reply for ", images, " images may take ", images, " * ",
                                                 bytes_per_image, " bytes, the limit is ", limits_.max_message_bytes,
                                                 "; send fewer images a call"));
}

void InferenceCore::RunImage(Call& call, int image) {
  if (!call.taken.exchange(true)) {
    call.queue_seconds = SecondsSince(call.queued);
    metrics_.ObserveStage(Stage::kQueue, call.queue_seconds);
  }
  absl::Status status = Guarded([&]() -> absl::Status {
    if (call.failed.load()) return absl::AbortedError("another image of the call failed");
    CKN_RETURN_IF_ERROR(Interruption(call.context));
    const SteadyTime decode_begin = std::chrono::steady_clock::now();
    const absl::StatusOr<ImageU8> decoded = call.work.decode(image);
    const double decode_seconds = SecondsSince(decode_begin);
    metrics_.ObserveStage(Stage::kDecode, decode_seconds);
    call.decode_seconds.fetch_add(decode_seconds, std::memory_order_relaxed);
    if (!decoded.ok()) return decoded.status();

    CKN_RETURN_IF_ERROR(Interruption(call.context));
    const SteadyTime compute_begin = std::chrono::steady_clock::now();
    absl::Status computed = call.work.compute(image, *decoded);
    const double compute_seconds = SecondsSince(compute_begin);
    metrics_.ObserveStage(Stage::kCompute, compute_seconds);
    call.compute_seconds.fetch_add(compute_seconds, std::memory_order_relaxed);
    return computed;
  });
  if (status.ok()) return;
  // What expires is the call, not this image.
  if (Outcome(status.code()) != ImageOutcome::kExpired) status = Annotate(status, absl::StrCat("image ", image));
  if (call.work.fail) {
    call.work.fail(image, status);
  } else {
    call.failed.store(true);
  }
  call.statuses[static_cast<std::size_t>(image)] = std::move(status);
}

absl::Status InferenceCore::Queue(const std::shared_ptr<Call>& call, int images, std::int64_t bytes) {
  call->statuses.resize(static_cast<std::size_t>(images));
  Job job;
  job.items = static_cast<std::size_t>(images);
  job.bytes = bytes + call->work.reply_bytes;
  job.patient = call->work.patient;
  job.estimate = Estimate(*call->model, images, bytes, call->work);
  job.run = [this, call](std::size_t item) { RunImage(*call, static_cast<int>(item)); };
  job.done = [this, call] { Finish(*call); };
  call->queued = std::chrono::steady_clock::now();
  return executor_.Submit(std::move(job));
}

void InferenceCore::Finish(Call& call) {
  absl::Status status;
  std::array<std::size_t, kImageOutcomeCount> outcomes{};
  for (const absl::Status& of_image : call.statuses) {
    const ImageOutcome outcome = Outcome(of_image.code());
    ++outcomes[static_cast<std::size_t>(outcome)];
    const bool of_the_call =
        outcome == ImageOutcome::kExpired || call.statuses.size() == 1 || call.work.fail == nullptr;
    // What was aborted is not the reason.
    if ((status.ok() || absl::IsAborted(status)) && of_the_call) status = of_image;
  }
  for (std::size_t outcome = 0; outcome < kImageOutcomeCount; ++outcome) {
    metrics_.CountImages(call.model->info.name(), static_cast<ImageOutcome>(outcome), outcomes[outcome]);
  }
  if (status.ok() && call.work.finish) {
    status = Guarded([&] {
      call.work.finish();
      return absl::OkStatus();
    });
  }
  End(call, status);
}

void InferenceCore::Run(Method method, const CallContext& context, const ModelKey& model, int images,
                        const google::protobuf::Message& request, google::protobuf::Message* response,
                        const Prepare& prepare, Done done) {
  const std::shared_ptr<Call> call = Begin(method, context, response, std::move(done));
  call->asked = model;
  call->images = images;
  call->request_bytes = static_cast<std::int64_t>(request.ByteSizeLong());
  const absl::Status admitted = Guarded([&]() -> absl::Status {
    CKN_ASSIGN_OR_RETURN(call->model, CheckCall(*call, model, images));
    CKN_ASSIGN_OR_RETURN(call->work, prepare(*call->model));
    // Lists of short numbers are several times as long in memory as on the wire.
    return Queue(call, images, MemoryOf(request));
  });
  if (!admitted.ok()) End(*call, admitted);
}

void InferenceCore::Answer(Method method, const CallContext& context, google::protobuf::Message* response,
                           const std::function<absl::Status()>& body, Done done) {
  const std::shared_ptr<Call> call = Begin(method, context, response, std::move(done));
  End(*call, Guarded([&]() -> absl::Status {
    CKN_RETURN_IF_ERROR(CheckCaller(context));
    CKN_RETURN_IF_ERROR(Interruption(context));
    return body();
  }));
}

void InferenceCore::AnswerLater(Method method, const CallContext& context, google::protobuf::Message* response,
                                const std::function<void(Done)>& body, Done done) {
  const std::shared_ptr<Call> call = Begin(method, context, response, std::move(done));
  absl::Status refused = CheckCaller(context);
  refused.Update(Interruption(context));
  if (!refused.ok()) return End(*call, refused);
  const absl::Status begun = Guarded([&] {
    body([this, call](const absl::Status& status) { End(*call, status); });
    return absl::OkStatus();
  });
  if (!begun.ok()) End(*call, begun);
}

}  // namespace ckn
