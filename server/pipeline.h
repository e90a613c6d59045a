#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/ckn/encoder.h"
#include "server/image/decode.h"
#include "server/image/preprocess.h"
#include "server/store/model.h"
#include "server/svm/linear_svm.h"

namespace ckn {

// A model ready to run: bytes -> image -> xi_0 -> features -> scores. Immutable; safe to share between threads.
class Pipeline {
 public:
  // Fails when the model's parts do not fit each other.
  static absl::StatusOr<Pipeline> Create(const Model& model);

  [[nodiscard]] const Encoder& encoder() const { return encoder_; }
  [[nodiscard]] const InputSpec& input() const { return input_; }
  [[nodiscard]] int feature_count() const { return encoder_.feature_count(); }
  [[nodiscard]] int class_count() const { return svm_.classes(); }

  // Standardised features, [feature_count()]. INVALID_ARGUMENT: the image does not fit the model.
  [[nodiscard]] absl::StatusOr<std::vector<float>> Encode(const ImageU8& image) const;
  // Margins, [class_count()].
  [[nodiscard]] absl::StatusOr<std::vector<float>> Classify(const ImageU8& image) const;

 private:
  Pipeline(InputSpec input, Encoder encoder, Standardization standardization, LinearSvm svm);

  InputSpec input_;
  Encoder encoder_;
  Standardization standardization_;
  LinearSvm svm_;
};

}  // namespace ckn
