#include "server/pipeline.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// A model file can be well-formed and still be made so that its numbers overflow.
absl::Status CheckFinite(std::span<const float> values, const char* what) {
  if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat("the model gives %s that are not finite numbers", what));
}

}  // namespace

Pipeline::Pipeline(InputSpec input, Encoder encoder, Standardization standardization, LinearSvm svm)
    : input_(input), encoder_(std::move(encoder)), standardization_(std::move(standardization)), svm_(std::move(svm)) {}

absl::StatusOr<Pipeline> Pipeline::Create(const Model& model) {
  const MapShape input{model.input.height, model.input.width, model.input.MapChannels()};
  CKN_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Create(model.layers, input));
  const int features = encoder.feature_count();
  if (model.standardization.mean.size() != features || model.svm.features() != features ||
      model.svm.bias.size() != model.svm.classes()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "classifier: got mean[%d], weights[%d][%d], bias[%d], expected %d features and one bias a class",
        model.standardization.mean.size(), model.svm.classes(), model.svm.features(), model.svm.bias.size(), features));
  }
  return Pipeline(model.input, std::move(encoder), model.standardization, model.svm);
}

absl::StatusOr<std::vector<float>> Pipeline::Encode(const ImageU8& image) const {
  CKN_ASSIGN_OR_RETURN(const FeatureMap map, Preprocess(image, input_));
  std::vector<float> features(encoder_.feature_count());
  encoder_.Encode(map, features);
  standardization_.Apply(features);
  CKN_RETURN_IF_ERROR(CheckFinite(features, "features"));
  return features;
}

absl::StatusOr<std::vector<float>> Pipeline::Classify(const ImageU8& image) const {
  CKN_ASSIGN_OR_RETURN(const std::vector<float> features, Encode(image));
  std::vector<float> scores = svm_.Score(features);
  CKN_RETURN_IF_ERROR(CheckFinite(scores, "scores"));
  return scores;
}

}  // namespace ckn
