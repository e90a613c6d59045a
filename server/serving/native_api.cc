#include "server/serving/native_api.h"

#include <algorithm>
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

using Images = google::protobuf::RepeatedPtrField<v1::Image>;

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
  const auto* const first = reinterpret_cast<const std::uint8_t*>(pixels.data().data());
  return ImageU8{.height = pixels.height(),
                 .width = pixels.width(),
                 .channels = pixels.channels(),
                 .pixels = {first, first + got}};
}

std::int64_t PixelsOfProto(const v1::Image& image) {
  if (image.has_encoded()) return PixelsOf(std::as_bytes(std::span(image.encoded())));
  return static_cast<std::int64_t>(image.pixels().data().size());  // no fewer
}

void SetStatus(const absl::Status& status, v1::ItemStatus* to) {
  to->set_code(status.raw_code());
  to->set_message(std::string(status.message()));
}

template <typename Result>
void SetNovelty(const std::optional<Novelty>& novelty, Result* result) {
  if (!novelty) return;
  result->mutable_novelty()->set_residual(novelty->residual);
  result->mutable_novelty()->set_rank(novelty->rank);
}

// One result an image, which `compute` fills or which carries the image's status.
template <typename Result>
ImageWork WorkOn(const Images& images, const InferenceLimits& limits, bool patient, std::int64_t reply_bytes,
                 google::protobuf::RepeatedPtrField<Result>* results,
                 std::function<absl::Status(const ImageU8& pixels, Result* result)> compute) {
  // Workers write different elements of `results`, which does not grow any more.
  results->Reserve(images.size());
  for (int i = 0; i < images.size(); ++i) results->Add();
  ImageWork work;
  work.patient = patient;
  work.reply_bytes = reply_bytes;
  work.decode = [&images, limits](int i) { return ImageFromProto(images[i], limits); };
  work.pixels = [&images](int i) { return PixelsOfProto(images[i]); };
  work.compute = [results, compute = std::move(compute)](int i, const ImageU8& pixels) {
    return compute(pixels, results->Mutable(i));
  };
  work.fail = [results](int i, const absl::Status& status) {
    Result* const result = results->Mutable(i);
    result->Clear();
    SetStatus(status, result->mutable_status());
  };
  return work;
}

// A stream has few requests in work, so these may wait for room in the queue.
bool IsStream(Method method) { return method == Method::kClassifyStream || method == Method::kEncodeStream; }

// For a request of a stream: an error becomes part of the reply.
template <typename Response>
NativeApi::Done InReply(Response* response, NativeApi::Done done) {
  return [response, done = std::move(done)](const absl::Status& status) {
    if (!status.ok()) SetError(status, response);
    done(absl::OkStatus());
  };
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

void SetError(const absl::Status& status, v1::ClassifyStreamResponse* response) {
  response->clear_response();
  SetStatus(status, response->mutable_status());
}

void SetError(const absl::Status& status, v1::EncodeStreamResponse* response) {
  response->clear_response();
  SetStatus(status, response->mutable_status());
}

void NativeApi::Classify(const CallContext& context, const v1::ClassifyRequest& request, v1::ClassifyResponse* response,
                         Done done) {
  Classify(Method::kClassify, context, request, response, std::move(done));
}

void NativeApi::Encode(const CallContext& context, const v1::EncodeRequest& request, v1::EncodeResponse* response,
                       Done done) {
  Encode(Method::kEncode, context, request, response, std::move(done));
}

void NativeApi::ClassifyStream(const CallContext& context, const v1::ClassifyRequest& request,
                               v1::ClassifyStreamResponse* response, Done done) {
  Classify(Method::kClassifyStream, context, request, response->mutable_response(), InReply(response, std::move(done)));
}

void NativeApi::EncodeStream(const CallContext& context, const v1::EncodeRequest& request,
                             v1::EncodeStreamResponse* response, Done done) {
  Encode(Method::kEncodeStream, context, request, response->mutable_response(), InReply(response, std::move(done)));
}

void NativeApi::Classify(Method method, const CallContext& context, const v1::ClassifyRequest& request,
                         v1::ClassifyResponse* response, Done done) {
  const auto prepare = [this, method, &request, response](const ServedModel& model) -> absl::StatusOr<ImageWork> {
    if (request.top_k() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("top_k: ", request.top_k(), ", expected 0 or more"));
    }
    const int top_k = std::clamp(request.top_k(), 1, model.pipeline.class_count());
    // Per class: tags and lengths, an index of up to 5 bytes, two floats, the label; the novelty once.
    constexpr std::int64_t kClassOverhead = 32;
    constexpr std::int64_t kResultOverhead = 32;
    CKN_ASSIGN_OR_RETURN(
        const std::int64_t reply_bytes,
        core_.ReplySize(
            request.images_size(),
            kResultOverhead + top_k * (kClassOverhead + static_cast<std::int64_t>(model.longest_class_name))));
    response->set_model(model.info.name());
    response->set_version(model.info.version());
    return WorkOn<v1::Classification>(
        request.images(), core_.limits(), IsStream(method), reply_bytes, response->mutable_results(),
        [&model, top_k](const ImageU8& pixels, v1::Classification* result) {
          std::optional<Novelty> novelty;
          CKN_ASSIGN_OR_RETURN(const std::vector<float> scores, model.pipeline.Classify(pixels, &novelty));
          SetNovelty(novelty, result);
          const std::vector<float> probabilities = model.pipeline.Probabilities(scores);
          for (const int index : TopK(scores, top_k)) {
            v1::ClassScore* const entry = result->add_classes();
            entry->set_index(index);
            entry->set_label(model.info.class_names(index));
            entry->set_score(scores[static_cast<std::size_t>(index)]);
            if (!probabilities.empty()) entry->set_probability(probabilities[static_cast<std::size_t>(index)]);
          }
          return absl::OkStatus();
        });
  };
  core_.Run(method, context, {request.model(), request.version()}, request.images_size(), request, response, prepare,
            std::move(done));
}

void NativeApi::Encode(Method method, const CallContext& context, const v1::EncodeRequest& request,
                       v1::EncodeResponse* response, Done done) {
  const auto prepare = [this, method, &request, response](const ServedModel& model) -> absl::StatusOr<ImageWork> {
    constexpr std::int64_t kResultOverhead = 32;
    CKN_ASSIGN_OR_RETURN(
        const std::int64_t reply_bytes,
        core_.ReplySize(request.images_size(), kResultOverhead + std::int64_t{4} * model.pipeline.feature_count()));
    response->set_model(model.info.name());
    response->set_version(model.info.version());
    return WorkOn<v1::Features>(request.images(), core_.limits(), IsStream(method), reply_bytes,
                                response->mutable_results(), [&model](const ImageU8& pixels, v1::Features* result) {
                                  std::optional<Novelty> novelty;
                                  CKN_ASSIGN_OR_RETURN(const std::vector<float> features,
                                                       model.pipeline.Encode(pixels, &novelty));
                                  SetNovelty(novelty, result);
                                  result->mutable_values()->Add(features.begin(), features.end());
                                  return absl::OkStatus();
                                });
  };
  core_.Run(method, context, {request.model(), request.version()}, request.images_size(), request, response, prepare,
            std::move(done));
}

void NativeApi::GetModel(const CallContext& context, const v1::GetModelRequest& request, v1::GetModelResponse* response,
                         Done done) {
  const auto body = [&]() -> absl::Status {
    CKN_ASSIGN_OR_RETURN(const auto model, core_.models().Find(request.model(), request.version()));
    const v1::Provenance& from = model->provenance;
    *response->mutable_info() = model->info;
    response->set_has_probabilities(model->pipeline.probability_scale() > 0);
    response->set_has_novelty(model->pipeline.has_novelty());
    response->set_precision(PrecisionName(model->pipeline.precision()));
    response->set_architecture(from.architecture());
    response->set_command(from.command());
    response->set_program_version(from.program_version());
    response->set_decoders(from.decoders());
    response->set_dataset_sha256(from.dataset_sha256());
    response->set_train_count(from.train_count());
    response->set_seed(from.seed());
    response->set_svm_c(from.svm_c());
    response->set_validation(from.validation());
    response->set_test_count(from.test_count());
    return absl::OkStatus();
  };
  core_.Answer(Method::kGetModel, context, response, body, std::move(done));
}

void NativeApi::ListModels(const CallContext& context, const v1::ListModelsRequest& /*request*/,
                           v1::ListModelsResponse* response, Done done) {
  const auto body = [this, response] {
    for (const auto& [name, versions] : core_.models().Snapshot()->models) {
      for (const auto& [version, model] : versions) *response->add_models() = model->info;
    }
    return absl::OkStatus();
  };
  core_.Answer(Method::kListModels, context, response, body, std::move(done));
}

}  // namespace ckn
