#include "server/serving/open_inference.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/guarded.h"
#include "server/base/quote.h"
#include "server/base/status.h"
#include "server/base/utf8.h"
#include "server/serving/open_inference_input.h"
#include "server/serving/open_inference_output.h"

namespace ckn {
namespace {

constexpr std::size_t kMaxIdBytes = 256;
constexpr const char* kName = "ckn";  // of the server, its platform and its backend
absl::Status NotAllowed(bool to_others) {
  return absl::PermissionDeniedError(
      to_others ? "loading and unloading models takes a token of the server's managers"
                : "clients may not load and unload models; ckn serve --model-control allows it");
}

// What belongs to one ModelInfer while it runs.
struct Inference {
  InferImages images;
  InferOutputs outputs;
  std::vector<InferResult> results;  // [images]
};

}  // namespace

void SetError(const absl::Status& status, inference::ModelStreamInferResponse* response) {
  response->clear_infer_response();
  response->set_error_message(
      absl::StrCat(absl::StatusCodeToString(status.code()), ": ", std::string(status.message())));
}

bool OpenInference::ModelReady(const inference::ModelReadyRequest& request) const {
  return ready_() && core_.models().Find(request.name(), request.version()).ok();
}

void OpenInference::ServerMetadata(inference::ServerMetadataResponse* response) const {
  response->set_name(kName);
  response->set_version(version_);
  response->add_extensions("classification");
  response->add_extensions("model_configuration");
  response->add_extensions("model_repository");
}

void OpenInference::ModelMetadata(const CallContext& context, const inference::ModelMetadataRequest& request,
                                  inference::ModelMetadataResponse* response, Done done) {
  const auto body = [&]() -> absl::Status {
    CKN_ASSIGN_OR_RETURN(const auto model, core_.models().Find(request.name(), request.version()));
    const v1::ModelInfo& info = model->info;
    response->set_name(info.name());
    const auto contents = core_.models().Snapshot();
    if (const auto versions = contents->models.find(info.name()); versions != contents->models.end()) {
      for (const auto& [version, of_version] : versions->second) response->add_versions(of_version->info.version());
    }
    response->set_platform(kName);
    auto& input = *response->add_inputs();
    input.set_name("image");
    input.set_datatype("BYTES");
    input.add_shape(-1);
    input.add_shape(1);
    for (const OutputTensor& tensor : OutputsOf(*model)) {
      auto& output = *response->add_outputs();
      output.set_name(tensor.name);
      output.set_datatype(tensor.text ? "BYTES" : "FP32");
      output.add_shape(-1);
      output.add_shape(tensor.width);
    }
    auto& properties = *response->mutable_properties();
    properties["pixels"] = absl::StrCat("instead of image: UINT8 or FP32 [-1, ", info.height(), ", ", info.width(),
                                        ", ", info.channels(), "]");
    properties["sha256"] = info.sha256();
    properties["dataset"] = info.dataset();
    return absl::OkStatus();
  };
  core_.Answer(Method::kModelMetadata, context, response, body, std::move(done));
}

void OpenInference::ModelConfig(const CallContext& context, const inference::ModelConfigRequest& request,
                                inference::ModelConfigResponse* response, Done done) {
  const auto body = [&]() -> absl::Status {
    CKN_ASSIGN_OR_RETURN(const auto model, core_.models().Find(request.name(), request.version()));
    inference::ModelConfig& config = *response->mutable_config();
    config.set_name(model->info.name());
    config.set_platform(kName);
    config.set_backend(kName);
    config.set_max_batch_size(core_.limits().max_images);
    auto& input = *config.add_input();
    input.set_name("image");
    input.set_data_type(inference::TYPE_STRING);
    input.add_dims(1);
    for (const OutputTensor& tensor : OutputsOf(*model)) {
      auto& output = *config.add_output();
      output.set_name(tensor.name);
      output.set_data_type(tensor.text ? inference::TYPE_STRING : inference::TYPE_FP32);
      output.add_dims(tensor.width);
    }
    return absl::OkStatus();
  };
  core_.Answer(Method::kModelConfig, context, response, body, std::move(done));
}

void OpenInference::RepositoryIndex(const CallContext& context, const inference::RepositoryIndexRequest& request,
                                    inference::RepositoryIndexResponse* response, Done done) {
  const auto body = [&] {
    const auto contents = core_.models().Snapshot();
    for (const auto& [name, versions] : contents->models) {
      for (const auto& [version, model] : versions) {
        auto& entry = *response->add_models();
        entry.set_name(name);
        entry.set_version(model->info.version());
        entry.set_state("READY");
      }
    }
    if (request.ready()) return absl::OkStatus();
    for (const FailedModel& failed : contents->failed) {
      auto& entry = *response->add_models();
      entry.set_name(Printable(failed.name));
      entry.set_version(absl::StrCat(failed.version));
      entry.set_state("UNAVAILABLE");
      entry.set_reason(Printable(failed.reason));
    }
    return absl::OkStatus();
  };
  core_.Answer(Method::kRepositoryIndex, context, response, body, std::move(done));
}

void OpenInference::RepositoryModelLoad(const CallContext& context,
                                        const inference::RepositoryModelLoadRequest& request,
                                        inference::RepositoryModelLoadResponse* response, Done done) {
  const auto body = [&](Done end) {
    if (!control_ || !context.MayManage()) return end(NotAllowed(control_.has_value()));
    if (!request.parameters().empty()) return end(absl::InvalidArgumentError("parameters: got some, expected none"));
    control_->load(request.model_name(), std::move(end));
  };
  core_.AnswerLater(Method::kRepositoryModelLoad, context, response, body, std::move(done));
}

void OpenInference::RepositoryModelUnload(const CallContext& context,
                                          const inference::RepositoryModelUnloadRequest& request,
                                          inference::RepositoryModelUnloadResponse* response, Done done) {
  const auto body = [&](Done end) {
    if (!control_ || !context.MayManage()) return end(NotAllowed(control_.has_value()));
    control_->unload(request.model_name(), std::move(end));
  };
  core_.AnswerLater(Method::kRepositoryModelUnload, context, response, body, std::move(done));
}

void OpenInference::ModelInfer(const CallContext& context, const inference::ModelInferRequest& request,
                               inference::ModelInferResponse* response, Done done) {
  Infer(Method::kModelInfer, context, request, response, std::move(done));
}

void OpenInference::ModelStreamInfer(const CallContext& context, const inference::ModelInferRequest& request,
                                     inference::ModelStreamInferResponse* response, Done done) {
  const auto told = [&request, response, done = std::move(done)](const absl::Status& status) {
    if (!status.ok()) {
      SetError(status, response);
      response->mutable_infer_response()->set_id(std::string(Utf8Prefix(request.id(), kMaxIdBytes)));
    }
    done(absl::OkStatus());
  };
  Infer(Method::kModelStreamInfer, context, request, response->mutable_infer_response(), told);
}

void OpenInference::Infer(Method method, const CallContext& context, const inference::ModelInferRequest& request,
                          inference::ModelInferResponse* response, Done done) {
  // Parsed before there is a model, since the number of images is part of every call's checks.
  auto images = std::make_shared<absl::StatusOr<InferImages>>(absl::UnknownError(""));
  const absl::Status parsed = Guarded([&] {
    *images = request.id().size() <= kMaxIdBytes
                  ? InferImages::Parse(request, core_.limits())
                  : absl::InvalidArgumentError(
                        absl::StrCat("id: ", request.id().size(), " bytes, expected at most ", kMaxIdBytes));
    return images->status();
  });
  const auto prepare = [this, method, &request, &parsed, response,
                        images](const ServedModel& model) -> absl::StatusOr<ImageWork> {
    CKN_RETURN_IF_ERROR(parsed);
    CKN_ASSIGN_OR_RETURN(InferOutputs outputs, InferOutputs::Parse(request, model));
    const int count = (*images)->count();
    CKN_ASSIGN_OR_RETURN(const std::int64_t reply_bytes, core_.ReplySize(count, outputs.BytesPerImage()));
    const auto state = std::make_shared<Inference>(
        Inference{**images, std::move(outputs), std::vector<InferResult>(static_cast<std::size_t>(count))});
    ImageWork work;
    work.patient = method == Method::kModelStreamInfer;  // a stream has few requests in work
    work.reply_bytes = reply_bytes;
    work.decode = [state](int image) { return state->images.Decode(image); };
    work.pixels = [state](int image) { return state->images.Pixels(image); };
    work.compute = [state](int image, const ImageU8& pixels) -> absl::Status {
      CKN_ASSIGN_OR_RETURN(state->results[static_cast<std::size_t>(image)], state->outputs.Compute(pixels));
      return absl::OkStatus();
    };
    work.finish = [state, response, &request, &model] {
      response->set_model_name(model.info.name());
      response->set_model_version(model.info.version());
      response->set_id(request.id());
      state->outputs.Write(state->results, state->images.raw(), response);
    };
    return work;
  };
  // What cannot be parsed is told once the model is known to be there.
  const int count = parsed.ok() ? (*images)->count() : 1;
  core_.Run(method, context, {request.model_name(), request.model_version()}, count, request, response, prepare,
            std::move(done));
}

}  // namespace ckn
