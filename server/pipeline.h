#pragma once

#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/feature_extractor.h"
#include "server/image/image.h"
#include "server/novelty.h"
#include "server/store/model.h"
#include "server/svm/linear_svm.h"

namespace ckn {

// A model ready to run: image -> features -> scores. Immutable; safe to share between threads.
class Pipeline {
 public:
  // Fails when the model's parts do not fit each other.
  static absl::StatusOr<Pipeline> Create(const Model& model, Precision precision = Precision::kFloat32);

  [[nodiscard]] int feature_count() const { return extractor_.feature_count(); }
  [[nodiscard]] int class_count() const { return svm_.classes(); }
  [[nodiscard]] Precision precision() const { return extractor_.precision(); }
  // What comes before the standardisation.
  [[nodiscard]] const FeatureExtractor& extractor() const { return extractor_; }
  // About what encoding an image costs, see Encoder::operations().
  [[nodiscard]] double operations() const { return extractor_.operations(); }

  // Standardised features, [feature_count()]. INVALID_ARGUMENT: the image does not fit the model.
  // The novelty, if asked for, is empty when the model has none: its last layer has a projection, or it is of a time
  // before there was any.
  absl::StatusOr<std::vector<float>> Encode(const ImageU8& image, std::optional<Novelty>* novelty = nullptr) const;
  // Margins of standardised features, [class_count()].
  [[nodiscard]] absl::StatusOr<std::vector<float>> Score(std::span<const float> features) const;
  // Margins of features that are not standardised yet, as FeatureExtractor gives them; standardises them in place.
  absl::StatusOr<std::vector<float>> ScoreUnscaled(std::span<float> features) const;
  // Margins of an image, [class_count()].
  absl::StatusOr<std::vector<float>> Classify(const ImageU8& image, std::optional<Novelty>* novelty = nullptr) const;
  // Of margins, [class_count()]; empty when the model is not calibrated.
  [[nodiscard]] std::vector<float> Probabilities(std::span<const float> scores) const {
    return svm_.probability_scale > 0 ? svm_.Probabilities(scores) : std::vector<float>();
  }
  [[nodiscard]] bool has_novelty() const { return !residual_quantiles_.empty(); }
  [[nodiscard]] double probability_scale() const { return svm_.probability_scale; }

 private:
  Pipeline(FeatureExtractor extractor, std::vector<Standardization> standardizations, LinearSvm svm,
           std::vector<float> residual_quantiles);

  // As Encode(), but they may be numbers that are not finite.
  absl::StatusOr<std::vector<float>> Features(const ImageU8& image, std::optional<Novelty>* novelty) const;

  FeatureExtractor extractor_;
  std::vector<Standardization> standardizations_;  // one a network
  LinearSvm svm_;
  std::vector<float> residual_quantiles_;  // empty: no novelty
};

}  // namespace ckn
