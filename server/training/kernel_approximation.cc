#include "server/training/kernel_approximation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "server/simd/exp.h"
#include "server/simd/gemm.h"

namespace ckn {
namespace {

// A tile of q, [kTileRows][filters], is written and read three times per evaluation: it should stay in the L2 cache.
constexpr Eigen::Index kTileRows = 512;
// Partial sums are formed over a fixed number of chunks and added in order, whatever the number of threads.
constexpr std::size_t kMaxChunks = 16;
// exp(2 kMostExcess^2) is eta / a of the longest filters.
constexpr double kMostExcess = 2.8;
// A filter at the origin has no direction.
constexpr double kLeastNorm = 1e-12;

}  // namespace

struct KernelApproximation::Partial {
  double loss = 0;
  RowMatrixF weighted_sums;            // sum_i r_i q_il s_i, [filters][dim]
  Eigen::VectorXd weighted_residuals;  // sum_i r_i q_il, [filters]
};

KernelApproximation::KernelApproximation(PatchPairs pairs, double sigma, int filters, ThreadPool& pool,
                                         const RowMatrixF& basis)
    : sigma_(sigma),
      subspace_(basis.size() > 0),
      longest_(subspace_ ? 1 + kMostExcess * sigma : std::numeric_limits<double>::infinity()),
      filters_(filters),
      pool_(pool) {
  targets_.resize(pairs.size());
  sums_ = std::move(pairs.x);
  for (Eigen::Index i = 0; i < sums_.rows(); ++i) {
    const double distance_squared = (sums_.row(i) - pairs.y.row(i)).cast<double>().squaredNorm();
    targets_[i] = static_cast<float>(std::exp(-distance_squared / (2 * sigma * sigma)));
    sums_.row(i) += pairs.y.row(i);
  }
  if (!subspace_) return;
  pairs.y.resize(0, 0);
  RowMatrixF coordinates(sums_.rows(), basis.rows());
  pool_.ParallelFor(static_cast<std::size_t>((sums_.rows() + kTileRows - 1) / kTileRows), [&](std::size_t tile, int) {
    const Eigen::Index first = static_cast<Eigen::Index>(tile) * kTileRows;
    Gemm(Op::kNone, Op::kTranspose, std::min<Eigen::Index>(kTileRows, sums_.rows() - first), basis.rows(), basis.cols(),
         1, sums_.row(first).data(), sums_.cols(), basis.data(), basis.cols(), 0, coordinates.row(first).data(),
         basis.rows());
  });
  sums_ = std::move(coordinates);
}

std::size_t KernelApproximation::chunks() const {
  return std::clamp<std::size_t>(static_cast<std::size_t>(pair_count() / kTileRows), 1, kMaxChunks);
}

template <typename Visit>
void KernelApproximation::ForEachTile(const RowMatrixF& w, Visit visit) const {
  const double inverse = 1 / (sigma_ * sigma_);
  const Eigen::ArrayXd squares = w.cast<double>().rowwise().squaredNorm();
  const Eigen::ArrayXd least = subspace_ ? Eigen::ArrayXd(2 * squares.sqrt()) : Eigen::ArrayXd(1 + squares);
  const Eigen::VectorXf bias = (-2 * inverse * least).matrix().cast<float>();
  const auto slope = static_cast<float>(2 * inverse);
  const Eigen::Index n = pair_count();
  const auto count = static_cast<Eigen::Index>(chunks());
  const Eigen::Index chunk_rows = (n + count - 1) / count;
  pool_.ParallelFor(chunks(), [&](std::size_t chunk, int) {
    RowMatrixF q(kTileRows, filters_);
    const Eigen::Index begin = static_cast<Eigen::Index>(chunk) * chunk_rows;
    const Eigen::Index end = std::min(n, begin + chunk_rows);
    for (Eigen::Index first = begin; first < end; first += kTileRows) {
      const Eigen::Index rows = std::min(kTileRows, end - first);
      Gemm(Op::kNone, Op::kTranspose, rows, filters_, dim(), 1, sums_.row(first).data(), dim(), w.data(), dim(), 0,
           q.data(), filters_);
      for (Eigen::Index i = 0; i < rows; ++i) ExpAffine(slope, bias.data(), 1, q.row(i).data(), filters_);
      visit(chunk, first, rows, q);
    }
  });
}

RowMatrixD KernelApproximation::Filters(std::span<const double> variables) const {
  RowMatrixD w = Eigen::Map<const RowMatrixD>(variables.data(), filters_, dim());
  if (!subspace_) return w;
  for (auto filter : w.rowwise()) {
    if (const double norm = filter.norm(); norm > longest_) filter *= longest_ / norm;
  }
  return w;
}

Eigen::VectorXd KernelApproximation::Eta(std::span<const double> variables) const {
  const Eigen::Map<const Eigen::ArrayXd> last(&variables[static_cast<std::size_t>(filters_) * dim()], filters_);
  const Eigen::ArrayXd eta = last.max(0);
  if (!subspace_) return eta.matrix();
  const Eigen::ArrayXd excess = Filters(variables).rowwise().norm().array() - 1;
  return (eta * (2 * excess.square() / (sigma_ * sigma_)).exp()).matrix();
}

double KernelApproximation::Evaluate(std::span<const double> variables, std::span<double> gradient) const {
  assert(variables.size() == variable_count() && (gradient.empty() || gradient.size() == variable_count()));
  const Eigen::Map<const RowMatrixD> coordinates(variables.data(), filters_, dim());
  const RowMatrixD w_double = Filters(variables);
  const Eigen::Map<const Eigen::VectorXd> eta_double(variables.data() + w_double.size(), filters_);
  const RowMatrixF w = w_double.cast<float>();
  const Eigen::VectorXf eta = eta_double.cast<float>();
  const bool want_gradient = !gradient.empty();

  std::vector<Partial> partials(chunks());
  if (want_gradient) {
    for (Partial& partial : partials) {
      partial.weighted_sums.setZero(filters_, dim());
      partial.weighted_residuals.setZero(filters_);
    }
  }
  ForEachTile(w, [&](std::size_t chunk, Eigen::Index first, Eigen::Index rows, RowMatrixF& q) {
    Partial& partial = partials[chunk];
    const Eigen::VectorXf residuals = q.topRows(rows) * eta - targets_.segment(first, rows);
    partial.loss += residuals.cast<double>().squaredNorm();
    if (!want_gradient) return;
    q.topRows(rows).array().colwise() *= residuals.array();
    partial.weighted_residuals += q.topRows(rows).colwise().sum().transpose().cast<double>();
    Gemm(Op::kTranspose, Op::kNone, filters_, dim(), rows, 1, q.data(), filters_, sums_.row(first).data(), dim(), 1,
         partial.weighted_sums.data(), dim());
  });

  const auto n = static_cast<double>(pair_count());
  double loss = 0;
  for (const Partial& partial : partials) loss += partial.loss;
  if (want_gradient) {
    RowMatrixD weighted_sums = RowMatrixD::Zero(filters_, dim());
    Eigen::VectorXd weighted_residuals = Eigen::VectorXd::Zero(filters_);
    for (const Partial& partial : partials) {
      weighted_sums += partial.weighted_sums.cast<double>();
      weighted_residuals += partial.weighted_residuals;
    }
    // df/dw_l = (4 eta_l / (n sigma^2)) (sum_i r_i q_il s_i - 2 (sum_i r_i q_il) w_l); df/deta_l = (2/n) sum_i r_i
    // q_il. In subspace coordinates w_l / ||w_l|| takes the place of the last w_l.
    Eigen::Map<RowMatrixD> w_gradient(gradient.data(), filters_, dim());
    Eigen::Map<Eigen::VectorXd> eta_gradient(gradient.data() + w_gradient.size(), filters_);
    for (int l = 0; l < filters_; ++l) {
      const double norm = subspace_ ? std::max(w_double.row(l).norm(), kLeastNorm) : 1;
      w_gradient.row(l) = (4 * eta_double[l] / (n * sigma_ * sigma_)) *
                          (weighted_sums.row(l) - 2 * weighted_residuals[l] / norm * w_double.row(l));
      if (const double length = coordinates.row(l).norm(); length > longest_) {
        // Only the direction of v_l matters.
        const double along = w_gradient.row(l).dot(coordinates.row(l)) / (length * length);
        w_gradient.row(l) = longest_ / length * (w_gradient.row(l) - along * coordinates.row(l)).eval();
      }
    }
    eta_gradient = (2 / n) * weighted_residuals;
  }
  return loss / n;
}

double KernelApproximation::BestConstantEta(const RowMatrixF& filters) const {
  // min over c of sum_i (k_i - c t_i)^2 with t_i = sum_l q_il.
  std::vector<double> numerators(chunks()), denominators(chunks());
  ForEachTile(filters, [&](std::size_t chunk, Eigen::Index first, Eigen::Index rows, RowMatrixF& q) {
    const Eigen::VectorXd totals = q.topRows(rows).rowwise().sum().cast<double>();
    numerators[chunk] += totals.dot(targets_.segment(first, rows).cast<double>());
    denominators[chunk] += totals.squaredNorm();
  });
  double numerator = 0, denominator = 0;
  for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
    numerator += numerators[chunk];
    denominator += denominators[chunk];
  }
  return denominator > 0 ? numerator / denominator : 0;
}

double KernelApproximation::KernelEnergy() const {
  return targets_.cast<double>().squaredNorm() / static_cast<double>(pair_count());
}

double KernelApproximation::FlopsPerEvaluation() const {
  return 4.0 * static_cast<double>(pair_count()) * filters_ * dim();
}

}  // namespace ckn
