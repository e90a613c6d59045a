#include "server/pipeline.h"

#include <cmath>
#include <span>
#include <utility>

#include "Eigen/Core"
#include "absl/strings/str_format.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// A model file can be well-formed and still be made so that its numbers overflow.
absl::Status CheckFinite(std::span<const float> values, const char* what) {
  if (values.empty()) return absl::OkStatus();
  const Eigen::Map<const Eigen::ArrayXf> array(values.data(), static_cast<Eigen::Index>(values.size()));
  if (std::isfinite(array.abs().maxCoeff<Eigen::PropagateNaN>())) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat("the model gives %s that are not finite numbers", what));
}

}  // namespace

Pipeline::Pipeline(FeatureExtractor extractor, std::vector<Standardization> standardizations, LinearSvm svm,
                   std::vector<float> residual_quantiles)
    : extractor_(std::move(extractor)),
      standardizations_(std::move(standardizations)),
      svm_(std::move(svm)),
      residual_quantiles_(std::move(residual_quantiles)) {}

absl::StatusOr<Pipeline> Pipeline::Create(const Model& model, Precision precision) {
  FeatureExtractor extractor(precision);
  std::vector<Standardization> standardizations;
  if (model.networks.empty()) return absl::InvalidArgumentError("networks: got none, expected at least one");
  for (const Network& network : model.networks) {
    const int before = extractor.feature_count();
    CKN_RETURN_IF_ERROR(extractor.Add(network.input, network.layers));
    if (const int features = extractor.feature_count() - before; network.standardization.mean.size() != features) {
      return absl::InvalidArgumentError(absl::StrFormat("standardization: got mean[%d], expected the %d features",
                                                        network.standardization.mean.size(), features));
    }
    standardizations.push_back(network.standardization);
  }
  if (model.svm.features() != extractor.feature_count() || model.svm.bias.size() != model.svm.classes()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("classifier: got weights[%d][%d], bias[%d], expected %d features and one bias a class",
                        model.svm.classes(), model.svm.features(), model.svm.bias.size(), extractor.feature_count()));
  }
  if (!model.residual_quantiles.empty() && !extractor.has_residual()) {
    return absl::InvalidArgumentError("residual_quantiles: expected none, the last layer has a projection");
  }
  return Pipeline(std::move(extractor), std::move(standardizations), model.svm, model.residual_quantiles);
}

absl::StatusOr<std::vector<float>> Pipeline::Features(const ImageU8& image, std::optional<Novelty>* novelty) const {
  std::vector<float> features(static_cast<std::size_t>(extractor_.feature_count()));
  float residual = 0;
  const bool ranked = novelty != nullptr && !residual_quantiles_.empty();
  CKN_RETURN_IF_ERROR(extractor_.Extract(image, features, ranked ? &residual : nullptr));
  Standardize(standardizations_, features);
  if (ranked) {
    CKN_RETURN_IF_ERROR(CheckFinite({&residual, 1}, "residuals"));
    *novelty = RankResidual(residual_quantiles_, residual);
  } else if (novelty != nullptr) {
    novelty->reset();
  }
  return features;
}

absl::StatusOr<std::vector<float>> Pipeline::Encode(const ImageU8& image, std::optional<Novelty>* novelty) const {
  CKN_ASSIGN_OR_RETURN(std::vector<float> features, Features(image, novelty));
  CKN_RETURN_IF_ERROR(CheckFinite(features, "features"));
  return features;
}

absl::StatusOr<std::vector<float>> Pipeline::Classify(const ImageU8& image, std::optional<Novelty>* novelty) const {
  // A feature that is not finite leaves no score finite: even 0 * inf is none.
  CKN_ASSIGN_OR_RETURN(const std::vector<float> features, Features(image, novelty));
  return Score(features);
}

absl::StatusOr<std::vector<float>> Pipeline::Score(std::span<const float> features) const {
  std::vector<float> scores = svm_.Score(features);
  CKN_RETURN_IF_ERROR(CheckFinite(scores, "scores"));
  return scores;
}

absl::StatusOr<std::vector<float>> Pipeline::ScoreUnscaled(std::span<float> features) const {
  Standardize(standardizations_, features);
  return Score(features);
}

}  // namespace ckn
