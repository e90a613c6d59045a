#include "server/serving/model_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/quote.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// An all-zero image of the size that the model takes, in colour if any of its networks looks at colours.
ImageU8 BlackImage(const Model& model) {
  const InputSpec& input = model.networks.front().input;
  ImageU8 image{.height = input.height, .width = input.width, .channels = 1, .pixels = {}};
  for (const Network& network : model.networks) image.channels = std::max(image.channels, network.input.channels);
  image.pixels.resize(static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                      static_cast<std::size_t>(image.channels));
  return image;
}

v1::ModelInfo DescribeModel(const LoadedModel& loaded, const Pipeline& pipeline) {
  const Model& model = loaded.model;
  v1::ModelInfo info;
  info.set_name(model.name);
  const ImageU8 image = BlackImage(model);
  info.set_height(image.height);
  info.set_width(image.width);
  info.set_channels(image.channels);
  info.set_features(pipeline.feature_count());
  for (const std::string& name : model.class_names) info.add_class_names(name);
  info.set_sha256(loaded.sha256);
  info.set_dataset(model.provenance.dataset());
  info.set_validation_error_percent(model.provenance.validation_error_percent());
  if (model.provenance.has_test_error_percent()) {
    info.set_test_error_percent(model.provenance.test_error_percent());
  }
  return info;
}

std::string LoadedNames(const ModelSet& models) {
  return absl::StrJoin(models, ", ",
                       [](std::string* out, const auto& entry) { absl::StrAppend(out, Quote(entry.first)); });
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ServedModel>> LoadServedModel(const std::string& path, std::int64_t version,
                                                                   const ModelLimits& limits, Precision precision) {
  CKN_ASSIGN_OR_RETURN(const LoadedModel loaded, ReadModelFile(path, limits));
  absl::StatusOr<Pipeline> pipeline = Pipeline::Create(loaded.model, precision);
  if (!pipeline.ok()) return Annotate(pipeline.status(), path);
  CKN_RETURN_IF_ERROR(Annotate(pipeline->Classify(BlackImage(loaded.model)).status(), path + ": warm-up"));

  std::size_t longest = 0;
  for (const std::string& name : loaded.model.class_names) longest = std::max(longest, name.size());
  v1::ModelInfo info = DescribeModel(loaded, *pipeline);
  info.set_version(absl::StrCat(version));
  return std::make_shared<const ServedModel>(ServedModel{.pipeline = *std::move(pipeline),
                                                         .info = std::move(info),
                                                         .provenance = loaded.model.provenance,
                                                         .path = path,
                                                         .longest_class_name = longest});
}

void ModelRegistry::Replace(ModelSet models, std::vector<FailedModel> failed) {
  auto next = std::make_shared<const Contents>(Contents{std::move(models), std::move(failed)});
  const absl::MutexLock lock(&mu_);
  // The old set leaves through `next`, after the lock: freeing models takes time.
  contents_.swap(next);
}

std::shared_ptr<const ModelRegistry::Contents> ModelRegistry::Snapshot() const {
  const absl::ReaderMutexLock lock(&mu_);
  return contents_;
}

absl::StatusOr<std::shared_ptr<const ServedModel>> ModelRegistry::Find(std::string_view name,
                                                                       std::string_view version) const {
  const std::shared_ptr<const Contents> contents = Snapshot();
  const ModelSet& models = contents->models;
  if (models.empty()) return absl::NotFoundError("no model is loaded");
  auto found = models.begin();
  if (!name.empty()) {
    found = models.find(name);
  } else if (models.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: not given; with several models loaded, name one of ", LoadedNames(models)));
  }
  if (found == models.end()) {
    return absl::NotFoundError(absl::StrCat("model ", Quote(name), " is not loaded; loaded: ", LoadedNames(models)));
  }
  const ModelVersions& versions = found->second;
  if (version.empty()) return versions.rbegin()->second;
  for (const auto& [number, model] : versions) {
    if (absl::StrCat(number) == version) return model;
  }
  return absl::NotFoundError(absl::StrCat(
      "model ", Quote(found->first), " has no version ", Quote(version), "; loaded: ",
      absl::StrJoin(versions, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); })));
}

}  // namespace ckn
