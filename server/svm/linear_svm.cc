#include "server/svm/linear_svm.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "server/simd/dot.h"

namespace ckn {

void Standardization::Apply(std::span<float> features) const {
  assert(static_cast<Eigen::Index>(features.size()) == mean.size());
  const float inverse = 1 / scale;
  for (std::size_t i = 0; i < features.size(); ++i) {
    features[i] = (features[i] - mean[static_cast<Eigen::Index>(i)]) * inverse;
  }
}

void Standardize(std::span<const Standardization> standardizations, std::span<float> features) {
  for (const Standardization& standardization : standardizations) {
    const auto count = static_cast<std::size_t>(standardization.mean.size());
    standardization.Apply(features.first(count));
    features = features.subspan(count);
  }
  assert(features.empty());
}

std::vector<float> LinearSvm::Score(std::span<const float> features) const {
  assert(static_cast<int>(features.size()) == this->features());
  std::vector<float> scores(weights.rows());
  RowDots(weights.data(), scores.size(), features.size(), features.data(), scores.data());
  for (Eigen::Index c = 0; c < weights.rows(); ++c) scores[c] += bias[c];
  return scores;
}

std::vector<float> LinearSvm::Probabilities(std::span<const float> scores) const {
  assert(probability_scale > 0);
  const float largest = *std::max_element(scores.begin(), scores.end());
  std::vector<float> probabilities(scores.size());
  float sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    probabilities[i] = std::exp(probability_scale * (scores[i] - largest));
    sum += probabilities[i];
  }
  for (float& probability : probabilities) probability /= sum;
  return probabilities;
}

int ArgMax(std::span<const float> scores) {
  assert(!scores.empty());
  return static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

std::vector<int> TopK(std::span<const float> scores, int k) {
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::clamp<std::ptrdiff_t>(k, 0, static_cast<std::ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&scores](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  order.resize(count);
  return order;
}

}  // namespace ckn
