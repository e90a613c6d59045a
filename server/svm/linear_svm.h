#pragma once

#include <span>
#include <vector>

#include "server/base/matrix.h"

namespace ckn {

// x -> (x - mean) / scale: features are centred and have unit l2 norm on average over the training set.
struct Standardization {
  Eigen::VectorXf mean;  // [features]
  float scale = 1;       // > 0

  void Apply(std::span<float> features) const;
};

// Each one on its part of the features, one part behind the other.
void Standardize(std::span<const Standardization> standardizations, std::span<float> features);

// One-vs-rest linear classifier on standardised features.
struct LinearSvm {
  RowMatrixF weights;    // [classes][features]
  Eigen::VectorXf bias;  // [classes]
  // Calibration: the classes' probabilities are softmax(probability_scale * margins). 0: not calibrated.
  float probability_scale = 0;

  [[nodiscard]] int classes() const { return static_cast<int>(weights.rows()); }
  [[nodiscard]] int features() const { return static_cast<int>(weights.cols()); }

  // Margins w_c . x + b_c, [classes].
  [[nodiscard]] std::vector<float> Score(std::span<const float> features) const;
  // Of margins [classes], [classes]; they add up to 1. The SVM must be calibrated.
  [[nodiscard]] std::vector<float> Probabilities(std::span<const float> scores) const;
};

// The predicted class: the largest score; the first of equals.
int ArgMax(std::span<const float> scores);

// Indices of the k largest scores, best first; equal scores in index order. k is clamped to the number of scores.
std::vector<int> TopK(std::span<const float> scores, int k);

}  // namespace ckn
