#include "server/training/svm_newton_joint.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "server/simd/gemm.h"
#include "server/training/cholesky.h"
#include "server/training/svm_line_search.h"

namespace ckn {
namespace {

// Rows of one task; sums over them are in single precision, sums of tasks in double and in their order, so that the
// result does not depend on the threads.
constexpr Eigen::Index kTaskRows = 2048;
// Rows of one product: few enough to stay in the cache between the two products that use them.
constexpr Eigen::Index kBlockFloats = Eigen::Index{1} << 18;
// The factor is made anew when its shift is off by more than this and the iterations that it has served have taken as
// many operations as it did: with many features it is worth dozens of them.
constexpr double kMaxShiftRatio = 2.5;
constexpr int kMaxCgIterations = 300;
constexpr double kCgTolerance = 0.05;
constexpr int kStalledIterations = 3;

Eigen::Index BlockRows(Eigen::Index d) { return std::clamp<Eigen::Index>(kBlockFloats / d, 16, 256); }

RowMatrixF Gather(const RowMatrixD& v, const std::vector<int>& rows) {
  RowMatrixF gathered(static_cast<Eigen::Index>(rows.size()), v.cols());
  for (std::size_t j = 0; j < rows.size(); ++j) {
    gathered.row(static_cast<Eigen::Index>(j)) = v.row(rows[j]).cast<float>();
  }
  return gathered;
}

}  // namespace

JointNewton::JointNewton(const Eigen::Ref<const RowMatrixF>& x, const RowMatrixF& gram, std::span<const int> labels,
                         int classes, const SvmOptions& options, ThreadPool& pool)
    : x_(x),
      labels_(labels),
      classes_(classes),
      options_(options),
      pool_(pool),
      v_(RowMatrixD::Zero(classes, x.cols())),
      gradients_(classes, x.cols()),
      steps_(classes, x.cols()),
      margins_(classes, x.rows()),
      gram_(gram) {}

std::vector<SvmReport> JointNewton::Solve(double c, const Progress& progress) {
  c_ = c;
  std::vector<SvmReport> reports(classes_);
  std::vector<double> least_gap(classes_, std::numeric_limits<double>::infinity());
  std::vector<double> least_objective = least_gap;
  std::vector<int> stalled(classes_);
  Classes open(classes_);
  std::iota(open.begin(), open.end(), 0);
  UpdateMargins();
  for (;;) {
    UpdateGradients(open);
    Classes next;
    for (const int k : open) {
      SvmReport& report = reports[k];
      report.objective = Objective(k);
      report.gap = 0.5 * gradients_.row(k).squaredNorm();
      const bool progress_made =
          report.gap < 0.5 * least_gap[k] || report.objective < (1 - 0.1 * options_.relative_gap) * least_objective[k];
      stalled[k] = progress_made ? 0 : stalled[k] + 1;
      least_gap[k] = std::min(least_gap[k], report.gap);
      least_objective[k] = std::min(least_objective[k], report.objective);
      // Where rounding outweighs the gradient, single precision allows no better; the report tells how good it is.
      const bool done = report.gap <= options_.relative_gap * report.objective || stalled[k] == kStalledIterations ||
                        report.newton_iterations == options_.max_newton_iterations;
      if (!done) next.push_back(k);
    }
    open = std::move(next);
    if (open.empty() || progress.stopped()) return reports;
    Factor(open);
    if (progress.stopped()) return reports;
    const int cg_iterations = SolveSystems(open, progress);
    if (progress.stopped()) return reports;
    LineSearch(open);
    for (const int k : open) {
      ++reports[k].newton_iterations;
      reports[k].cg_iterations += cg_iterations;
    }
  }
}

void JointNewton::Multiply(const RowMatrixF& v, RowMatrixF& products) {
  products.resize(n(), v.rows());
  const Eigen::Index block = BlockRows(d());
  pool_.ParallelFor(static_cast<std::size_t>((n() + block - 1) / block), [&](std::size_t i, int) {
    const Eigen::Index first = static_cast<Eigen::Index>(i) * block;
    const Eigen::Index rows = std::min(block, n() - first);
    Gemm(Op::kNone, Op::kTranspose, rows, v.rows(), d(), 1, x_.row(first).data(), x_.outerStride(), v.data(), d(), 0,
         products.row(first).data(), v.rows());
  });
}

template <typename Weigh>
void JointNewton::AddViolators(const Classes& classes, const RowMatrixF* v, Weigh weigh, RowMatrixD& sums) {
  const auto m = static_cast<Eigen::Index>(classes.size());
  const auto tasks = static_cast<std::size_t>((n() + kTaskRows - 1) / kTaskRows);
  std::vector<RowMatrixF> partial(tasks);
  const Eigen::Index block = BlockRows(d());
  pool_.ParallelFor(tasks, [&](std::size_t task, int) {
    RowMatrixF& sum = partial[task];
    sum.setZero(m, d());
    const Eigen::Index end = std::min(n(), (static_cast<Eigen::Index>(task) + 1) * kTaskRows);
    RowMatrixF gathered(block, d());
    RowMatrixF weights(block, m);
    std::vector<Eigen::Index> rows;
    const auto flush = [&] {
      const auto count = static_cast<Eigen::Index>(rows.size());
      if (count == 0) return;
      // Without a copy where the rows lie together.
      const float* data = x_.row(rows.front()).data();
      Eigen::Index stride = x_.outerStride();
      if (rows.back() - rows.front() + 1 != count) {
        for (Eigen::Index i = 0; i < count; ++i) gathered.row(i) = x_.row(rows[i]);
        data = gathered.data();
        stride = d();
      }
      if (v != nullptr) {
        Gemm(Op::kNone, Op::kTranspose, count, m, d(), 1, data, stride, v->data(), d(), 0, weights.data(), m);
      }
      for (Eigen::Index i = 0; i < count; ++i) {
        for (Eigen::Index j = 0; j < m; ++j) weights(i, j) = weigh(rows[i], classes[j], weights(i, j));
      }
      Gemm(Op::kTranspose, Op::kNone, m, d(), count, 1, weights.data(), m, data, stride, 1, sum.data(), d());
      rows.clear();
    };
    for (Eigen::Index row = static_cast<Eigen::Index>(task) * kTaskRows; row < end; ++row) {
      const bool violated = std::ranges::any_of(classes, [&](int k) { return margins_(k, row) < 1; });
      if (violated) rows.push_back(row);
      if (static_cast<Eigen::Index>(rows.size()) == block) flush();
    }
    flush();
  });
  pool_.ParallelFor(static_cast<std::size_t>(m), [&](std::size_t j, int) {
    for (const RowMatrixF& sum : partial) {
      sums.row(static_cast<Eigen::Index>(j)) += sum.row(static_cast<Eigen::Index>(j)).cast<double>();
    }
  });
}

void JointNewton::UpdateMargins() {
  RowMatrixF products;
  Multiply(v_.cast<float>(), products);
  pool_.ParallelFor(static_cast<std::size_t>(classes_), [&](std::size_t class_index, int) {
    const int k = static_cast<int>(class_index);
    for (Eigen::Index i = 0; i < n(); ++i) margins_(k, i) = Sign(i, k) * static_cast<double>(products(i, k));
  });
}

// grad P = v - 2 C sum over the violators of y xi x.
void JointNewton::UpdateGradients(const Classes& classes) {
  RowMatrixD sums = RowMatrixD::Zero(static_cast<Eigen::Index>(classes.size()), d());
  AddViolators(
      classes, nullptr,
      [&](Eigen::Index row, int k, float) {
        const double xi = 1 - margins_(k, row);
        return xi > 0 ? static_cast<float>(-2 * c_ * xi * Sign(row, k)) : 0;
      },
      sums);
  for (std::size_t j = 0; j < classes.size(); ++j) {
    gradients_.row(classes[j]) = v_.row(classes[j]) + sums.row(static_cast<Eigen::Index>(j));
  }
}

double JointNewton::Objective(int k) const {
  double loss = 0;
  for (Eigen::Index i = 0; i < n(); ++i) {
    const double xi = 1 - margins_(k, i);
    if (xi > 0) loss += xi * xi;
  }
  return 0.5 * v_.row(k).squaredNorm() + c_ * loss;
}

void JointNewton::Factor(const Classes& classes) {
  std::int64_t violators = 0;
  for (const int k : classes) violators += (margins_.row(k).array() < 1).count();
  const double share = static_cast<double>(std::max<std::int64_t>(violators, 1)) /
                       static_cast<double>(n() * static_cast<Eigen::Index>(classes.size()));
  const double shift = 1 / (2 * c_ * share);
  if (factor_shift_ > 0) {
    const bool near = shift < kMaxShiftRatio * factor_shift_ && factor_shift_ < kMaxShiftRatio * shift;
    const auto columns = static_cast<double>(d());
    if (near || work_since_factor_ < columns * columns * columns / 6) return;
  }
  for (double used = shift;; used *= 4) {
    factor_ = gram_;
    factor_.diagonal().array() += static_cast<float>(used);
    if (CholeskyInPlace(factor_, &pool_)) break;
  }
  factor_shift_ = shift;
  work_since_factor_ = 0;
}

int JointNewton::SolveSystems(const Classes& classes, const Progress& progress) {
  const auto m = static_cast<Eigen::Index>(classes.size());
  RowMatrixD residual(m, d()), z(m, d()), direction(m, d()), image(m, d());
  RowMatrixD solution = RowMatrixD::Zero(m, d());
  Eigen::VectorXd rz(m), target(m);
  std::vector<int> open(m);  // rows of these matrices that are not done
  std::iota(open.begin(), open.end(), 0);
  for (Eigen::Index j = 0; j < m; ++j) {
    residual.row(j) = -gradients_.row(classes[j]) / (2 * c_);
    target[j] = kCgTolerance * residual.row(j).norm();
  }
  const auto precondition = [&] {
    RowMatrixF b(d(), static_cast<Eigen::Index>(open.size()));
    std::vector<double> scale(open.size());
    for (std::size_t j = 0; j < open.size(); ++j) {
      // Unit size: single precision has little room for tiny residuals.
      scale[j] = residual.row(open[j]).norm();
      b.col(static_cast<Eigen::Index>(j)) = (residual.row(open[j]) / scale[j]).transpose().cast<float>();
    }
    CholeskySolve(factor_, b, pool_);
    for (std::size_t j = 0; j < open.size(); ++j) {
      z.row(open[j]) = scale[j] * b.col(static_cast<Eigen::Index>(j)).transpose().cast<double>();
    }
  };
  precondition();
  direction = z;
  for (Eigen::Index j = 0; j < m; ++j) rz[j] = residual.row(j).dot(z.row(j));

  int iteration = 0;
  while (!open.empty() && iteration < kMaxCgIterations && !progress.stopped()) {
    ++iteration;
    Classes open_classes;
    for (const int j : open) open_classes.push_back(classes[j]);
    const RowMatrixF directions = Gather(direction, open);
    RowMatrixD sums = RowMatrixD::Zero(static_cast<Eigen::Index>(open.size()), d());
    // Two products with the rows, two with the factor.
    work_since_factor_ +=
        static_cast<double>(open.size()) * static_cast<double>(d()) * static_cast<double>(2 * n() + d());
    AddViolators(
        open_classes, &directions,
        [&](Eigen::Index row, int k, float product) { return margins_(k, row) < 1 ? product : 0; }, sums);
    std::vector<int> next;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const int j = open[i];
      image.row(j) = direction.row(j) / (2 * c_) + sums.row(static_cast<Eigen::Index>(i));
      const double curvature = direction.row(j).dot(image.row(j));
      if (!(curvature > 0)) continue;
      const double length = rz[j] / curvature;
      solution.row(j) += length * direction.row(j);
      residual.row(j) -= length * image.row(j);
      if (residual.row(j).norm() > target[j]) next.push_back(j);
    }
    open = std::move(next);
    if (open.empty()) break;
    precondition();
    for (const int j : open) {
      const double rz_next = residual.row(j).dot(z.row(j));
      direction.row(j) = z.row(j) + (rz_next / rz[j]) * direction.row(j);
      rz[j] = rz_next;
    }
  }
  for (Eigen::Index j = 0; j < m; ++j) steps_.row(classes[j]) = solution.row(j);
  return iteration;
}

void JointNewton::LineSearch(const Classes& classes) {
  RowMatrixF products;
  Multiply(Gather(steps_, classes), products);
  pool_.ParallelFor(classes.size(), [&](std::size_t j, int) {
    const int k = classes[j];
    Eigen::VectorXd slopes(n());
    for (Eigen::Index i = 0; i < n(); ++i) {
      slopes[i] = Sign(i, k) * static_cast<double>(products(i, static_cast<Eigen::Index>(j)));
    }
    const double t = ExactLineSearch(margins_.row(k).transpose(), slopes, c_, v_.row(k).dot(steps_.row(k)),
                                     steps_.row(k).squaredNorm());
    v_.row(k) += t * steps_.row(k);
    margins_.row(k) += t * slopes.transpose();
  });
}

}  // namespace ckn
