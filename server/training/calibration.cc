#include "server/training/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace ckn {
namespace {

// Margins are of order 1, or of order C where C is tiny.
constexpr double kMinScale = 1e-3;
constexpr double kMaxScale = 1e8;

struct Slope {
  double first = 0, second = 0;  // derivatives of the mean log loss with the scale
};

// The log loss is convex in the scale: with p = softmax(scale * s) and targets t, its derivatives are the mean of
// E_p[s] - E_t[s] and the mean of Var_p[s].
Slope SlopeAt(const RowMatrixF& scores, std::span<const int> labels, double scale) {
  Slope slope;
  const double doubt = 1 / (static_cast<double>(scores.rows()) + 2);
  const auto others = static_cast<double>(scores.cols() - 1);
  for (Eigen::Index i = 0; i < scores.rows(); ++i) {
    const Eigen::ArrayXd s = scores.row(i).transpose().cast<double>().array();
    Eigen::ArrayXd p = (scale * (s - s.maxCoeff())).exp();
    p /= p.sum();
    const double mean = (p * s).sum();
    const double right = s[labels[static_cast<std::size_t>(i)]];
    slope.first += mean - (1 - doubt) * right - doubt * (s.sum() - right) / others;
    slope.second += (p * (s - mean).square()).sum();
  }
  slope.first /= static_cast<double>(scores.rows());
  slope.second /= static_cast<double>(scores.rows());
  return slope;
}

}  // namespace

double FitProbabilityScale(const RowMatrixF& scores, std::span<const int> labels) {
  // Newton's method, kept inside a bracket.
  double low = kMinScale, high = kMaxScale, scale = 1;
  for (int iteration = 0; iteration < 100 && high - low > 1e-9 * high; ++iteration) {
    const Slope slope = SlopeAt(scores, labels, scale);
    (slope.first > 0 ? high : low) = scale;
    double next = scale - slope.first / slope.second;
    if (!(next > low && next < high)) next = std::sqrt(low * high);
    if (std::abs(next - scale) <= 1e-7 * scale) return next;
    scale = next;
  }
  return scale;
}

Calibration MeasureCalibration(const RowMatrixF& scores, std::span<const int> labels, double scale) {
  constexpr int kBins = 15;
  struct Bin {
    double probability = 0;
    int right = 0;
    int count = 0;
  };
  std::array<Bin, kBins> bins;
  Calibration result;
  for (Eigen::Index i = 0; i < scores.rows(); ++i) {
    const Eigen::ArrayXd s = scores.row(i).transpose().cast<double>().array();
    Eigen::Index predicted = 0;
    const double largest = s.maxCoeff(&predicted);
    const double log_sum = std::log((scale * (s - largest)).exp().sum());
    const int label = labels[static_cast<std::size_t>(i)];
    result.log_loss += log_sum - scale * (s[label] - largest);
    const double probability = std::exp(-log_sum);
    Bin& bin = bins[static_cast<std::size_t>(std::min(kBins - 1, static_cast<int>(kBins * probability)))];
    bin.probability += probability;
    bin.right += predicted == label ? 1 : 0;
    ++bin.count;
  }
  for (const Bin& bin : bins) result.error += std::abs(bin.probability - bin.right);
  result.log_loss /= static_cast<double>(scores.rows());
  result.error /= static_cast<double>(scores.rows());
  return result;
}

}  // namespace ckn
