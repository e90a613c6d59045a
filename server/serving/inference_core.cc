#include "server/serving/inference_core.h"

#include <array>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/image/decode.h"

namespace ckn {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

double SecondsSince(SteadyTime start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs `body`; what a library throws in it becomes a status.
absl::Status Guarded(const std::function<absl::Status()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("unexpected failure: ", error.what()));
  } catch (...) {
    return absl::InternalError("unexpected failure");
  }
}

absl::StatusOr<ImageU8> ImageFromPixels(const v1::Pixels& pixels, const InferenceLimits& limits) {
  if (pixels.height() <= 0 || pixels.width() <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("pixels: size ", pixels.height(), "x", pixels.width(), ", expected positive height and width"));
  }
  if (pixels.channels() != 1 && pixels.channels() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("pixels: ", pixels.channels(), " channels, expected 1 (gray) or 3 (R, G, B)"));
  }
  // Each factor is below 2^31, so the product fits.
  const std::int64_t area = std::int64_t{pixels.height()} * pixels.width();
  if (area > limits.max_pixels) {
    return absl::InvalidArgumentError(
        absl::StrCat("pixels: ", pixels.height(), "x", pixels.width(), " pixels, the limit is ", limits.max_pixels));
  }
  const auto got = static_cast<std::uint64_t>(pixels.data().size());
  const std::uint64_t expected = static_cast<std::uint64_t>(area) * static_cast<std::uint64_t>(pixels.channels());
  if (got != expected) {
    return absl::InvalidArgumentError(absl::StrCat("pixels: data has ", got,
                                                   " bytes, expected height * width * channels = ", pixels.height(),
                                                   " * ", pixels.width(), " * ", pixels.channels(), " = ", expected));
  }
  return ImageU8{.height = pixels.height(),
                 .width = pixels.width(),
                 .channels = pixels.channels(),
                 .pixels = {pixels.data().begin(), pixels.data().end()}};
}

template <typename Result>
void SetNovelty(const std::optional<Novelty>& novelty, Result* result) {
  if (!novelty) return;
  result->mutable_novelty()->set_residual(novelty->residual);
  result->mutable_novelty()->set_rank(novelty->rank);
}

ImageOutcome Outcome(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return ImageOutcome::kOk;
    case absl::StatusCode::kInvalidArgument:
      return ImageOutcome::kInvalid;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return ImageOutcome::kExpired;
    default:
      return ImageOutcome::kError;
  }
}

}  // namespace

absl::StatusOr<ImageU8> ImageFromProto(const v1::Image& image, const InferenceLimits& limits) {
  switch (image.content_case()) {
    case v1::Image::kEncoded:
      return Decode(std::as_bytes(std::span(image.encoded())), {.max_pixels = limits.max_pixels});
    case v1::Image::kPixels:
      return ImageFromPixels(image.pixels(), limits);
    case v1::Image::CONTENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("no content, expected encoded or pixels");
}

struct InferenceCore::Call {
  Call(Method m, const CallContext& c, google::protobuf::Message* r, Done d)
      : method(m), context(c), response(r), done(std::move(d)) {}

  const Method method;
  const CallContext& context;
  google::protobuf::Message* const response;
  const Done done;
  const SteadyTime begin = std::chrono::steady_clock::now();
  std::shared_ptr<const ServedModel> model;
  SteadyTime queued;
  std::atomic<bool> taken{false};  // by a worker
};

InferenceCore::InferenceCore(const ModelRegistry& models, Executor& executor, Metrics& metrics, const Clock& clock,
                             const InferenceLimits& limits)
    : models_(models), executor_(executor), metrics_(metrics), clock_(clock), limits_(limits), failure_log_(clock) {}

std::shared_ptr<InferenceCore::Call> InferenceCore::Begin(Method method, const CallContext& context,
                                                          google::protobuf::Message* response, Done done) {
  calls_in_flight_.fetch_add(1);
  calls_begun_.fetch_add(1);
  metrics_.in_flight().Increment();
  return std::make_shared<Call>(method, context, response, std::move(done));
}

void InferenceCore::End(Call& call, const absl::Status& status) {
  if (!status.ok()) call.response->Clear();
  // Before done(): once the client has its reply, the metrics count the call.
  failure_log_.Record(call.method, status);
  metrics_.CountRequest(call.method, status.code(), SecondsSince(call.begin));
  metrics_.in_flight().Decrement();
  call.done(status);
  calls_in_flight_.fetch_sub(1);
}

absl::Status InferenceCore::Interruption(const CallContext& context) const {
  if (clock_.Now() >= context.Deadline()) {
    return absl::DeadlineExceededError("the deadline passed before the work was done");
  }
  if (context.Cancelled()) return absl::CancelledError("the client cancelled the call");
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const ServedModel>> InferenceCore::CheckCall(const Call& call, const std::string& model,
                                                                            const Images& images) {
  CKN_RETURN_IF_ERROR(Interruption(call.context));
  if (images.empty()) return absl::InvalidArgumentError("images: none, expected at least one");
  if (images.size() > limits_.max_images) {
    return absl::InvalidArgumentError(
        absl::StrCat("images: ", images.size(), " in one call, the limit is ", limits_.max_images));
  }
  auto found = models_.Find(model);
  if (absl::IsNotFound(found.status())) {
    metrics_.CountImages({}, ImageOutcome::kInvalid, static_cast<std::size_t>(images.size()));
  }
  return found;
}

absl::Status InferenceCore::CheckReplySize(int images, std::int64_t bytes_per_image) const {
  if (bytes_per_image <= limits_.max_message_bytes / images) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("images: the reply for ", images, " images may take ", images, " * ",
                                                 bytes_per_image, " bytes, the limit is ", limits_.max_message_bytes,
                                                 "; send fewer images a call"));
}

absl::Status InferenceCore::RunImage(Call& call, const v1::Image& image,
                                     const std::function<absl::Status(const ImageU8&)>& compute) {
  return Guarded([&]() -> absl::Status {
    CKN_RETURN_IF_ERROR(Interruption(call.context));
    const SteadyTime decode_begin = std::chrono::steady_clock::now();
    const absl::StatusOr<ImageU8> decoded = ImageFromProto(image, limits_);
    metrics_.ObserveStage(Stage::kDecode, SecondsSince(decode_begin));
    if (!decoded.ok()) return decoded.status();

    CKN_RETURN_IF_ERROR(Interruption(call.context));
    const SteadyTime compute_begin = std::chrono::steady_clock::now();
    absl::Status status = compute(*decoded);
    metrics_.ObserveStage(Stage::kCompute, SecondsSince(compute_begin));
    return status;
  });
}

template <typename Result>
absl::Status InferenceCore::Queue(const std::shared_ptr<Call>& call, const Images& images,
                                  google::protobuf::RepeatedPtrField<Result>* results, Compute<Result> compute) {
  results->Reserve(images.size());
  for (int i = 0; i < images.size(); ++i) results->Add();

  Job job;
  job.items = static_cast<std::size_t>(images.size());
  // Workers write different elements of `results`, which does not grow any more.
  job.run = [this, call, &images, results, compute = std::move(compute)](std::size_t item) {
    if (!call->taken.exchange(true)) metrics_.ObserveStage(Stage::kQueue, SecondsSince(call->queued));
    const int index = static_cast<int>(item);
    Result* result = results->Mutable(index);
    const absl::Status status =
        RunImage(*call, images[index], [&](const ImageU8& image) { return compute(image, result); });
    if (status.ok()) return;
    result->Clear();
    result->mutable_status()->set_code(status.raw_code());
    // What expires is the call, not this image.
    const bool expired = Outcome(status.code()) == ImageOutcome::kExpired;
    result->mutable_status()->set_message(expired ? std::string(status.message())
                                                  : absl::StrCat("image ", index, ": ", status.message()));
  };
  job.done = [this, call, results] { Finish(*call, *results); };
  call->queued = std::chrono::steady_clock::now();
  return executor_.Submit(std::move(job));
}

template <typename Result>
void InferenceCore::Finish(Call& call, const google::protobuf::RepeatedPtrField<Result>& results) {
  absl::Status status;
  std::array<std::size_t, kImageOutcomeCount> outcomes{};
  for (const Result& result : results) {
    const auto code = static_cast<absl::StatusCode>(result.status().code());
    const ImageOutcome outcome = Outcome(code);
    ++outcomes[static_cast<std::size_t>(outcome)];
    const bool of_the_call = outcome == ImageOutcome::kExpired || results.size() == 1;
    if (status.ok() && code != absl::StatusCode::kOk && of_the_call) {
      status = absl::Status(code, result.status().message());
    }
  }
  for (std::size_t outcome = 0; outcome < kImageOutcomeCount; ++outcome) {
    metrics_.CountImages(call.model->info.name(), static_cast<ImageOutcome>(outcome), outcomes[outcome]);
  }
  End(call, status);
}

void InferenceCore::Classify(const CallContext& context, const v1::ClassifyRequest& request,
                             v1::ClassifyResponse* response, Done done) {
  const std::shared_ptr<Call> call = Begin(Method::kClassify, context, response, std::move(done));
  const absl::Status admitted = Guarded([&]() -> absl::Status {
    CKN_ASSIGN_OR_RETURN(call->model, CheckCall(*call, request.model(), request.images()));
    if (request.top_k() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("top_k: ", request.top_k(), ", expected 0 or more"));
    }
    const ServedModel* const model = call->model.get();
    const int top_k = std::clamp(request.top_k(), 1, model->pipeline.class_count());
    // Per class: tags and lengths, an index of up to 5 bytes, two floats, the label.
    constexpr std::int64_t kClassOverhead = 32;
    CKN_RETURN_IF_ERROR(CheckReplySize(
        request.images_size(), top_k * (kClassOverhead + static_cast<std::int64_t>(model->longest_class_name))));
    response->set_model(model->info.name());
    return Queue<v1::Classification>(
        call, request.images(), response->mutable_results(), [model, top_k](const ImageU8& image, auto* result) {
          std::optional<Novelty> novelty;
          CKN_ASSIGN_OR_RETURN(const std::vector<float> scores, model->pipeline.Classify(image, &novelty));
          SetNovelty(novelty, result);
          const std::vector<float> probabilities = model->pipeline.Probabilities(scores);
          for (const int index : TopK(scores, top_k)) {
            v1::ClassScore* const entry = result->add_classes();
            entry->set_index(index);
            entry->set_label(model->info.class_names(index));
            entry->set_score(scores[static_cast<std::size_t>(index)]);
            if (!probabilities.empty()) entry->set_probability(probabilities[static_cast<std::size_t>(index)]);
          }
          return absl::OkStatus();
        });
  });
  if (!admitted.ok()) End(*call, admitted);
}

void InferenceCore::Encode(const CallContext& context, const v1::EncodeRequest& request, v1::EncodeResponse* response,
                           Done done) {
  const std::shared_ptr<Call> call = Begin(Method::kEncode, context, response, std::move(done));
  const absl::Status admitted = Guarded([&]() -> absl::Status {
    CKN_ASSIGN_OR_RETURN(call->model, CheckCall(*call, request.model(), request.images()));
    const ServedModel* const model = call->model.get();
    constexpr std::int64_t kResultOverhead = 32;
    CKN_RETURN_IF_ERROR(
        CheckReplySize(request.images_size(), kResultOverhead + std::int64_t{4} * model->pipeline.feature_count()));
    response->set_model(model->info.name());
    return Queue<v1::Features>(
        call, request.images(), response->mutable_results(), [model](const ImageU8& image, auto* result) {
          std::optional<Novelty> novelty;
          CKN_ASSIGN_OR_RETURN(const std::vector<float> features, model->pipeline.Encode(image, &novelty));
          SetNovelty(novelty, result);
          result->mutable_values()->Add(features.begin(), features.end());
          return absl::OkStatus();
        });
  });
  if (!admitted.ok()) End(*call, admitted);
}

void InferenceCore::ListModels(const CallContext& context, v1::ListModelsResponse* response, Done done) {
  const std::shared_ptr<Call> call = Begin(Method::kListModels, context, response, std::move(done));
  End(*call, Guarded([&]() -> absl::Status {
    CKN_RETURN_IF_ERROR(Interruption(context));
    for (const auto& [name, model] : *models_.Snapshot()) *response->add_models() = model->info;
    return absl::OkStatus();
  }));
}

}  // namespace ckn
