#include "server/training/svm_solver.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/simd/gemm.h"
#include "server/training/cholesky.h"

namespace ckn {
namespace {

constexpr Eigen::Index kGatherRows = 1024;
// Sums over rows are formed in single precision over this many rows at a time, then added in double.
constexpr Eigen::Index kSumRows = 256;
// More conjugate gradient steps than this in one solve: the preconditioner is out of date.
constexpr int kRefreshAfterCgIterations = 8;
constexpr int kMaxCgIterations = 200;
constexpr double kCgTolerance = 1e-2;
// Newton iterations in a row without progress.
constexpr int kStalledIterations = 4;

// One class's problem along the path. Everything that grows with d^2 is preallocated once and reused.
class BinarySolver {
 public:
  BinarySolver(const Eigen::Ref<const RowMatrixF>& x, const RowMatrixF& gram, const SvmOptions& options)
      : x_(x), gram_(gram), options_(options), y_(x.rows()), margins_(x.rows()), in_system_(x.rows()) {}

  // Begins with another class: labels +-1, first point w0.
  void Start(const std::vector<float>& y, const Eigen::VectorXd& w0) {
    y_ = y;
    w_ = w0;
    system_ready_ = false;
    factor_ready_ = false;
    precise_ = false;
    UpdateMargins();
  }

  SvmReport Solve(double c, const Progress& progress) {
    c_ = c;
    SvmReport report;
    factor_ready_ = factor_ready_ && factor_c_ > 0 && c_ <= 4 * factor_c_;
    UpdateActive();
    Gradient();
    double least_gap = std::numeric_limits<double>::infinity();
    double least_objective = least_gap;
    int stalled = 0;
    for (;;) {
      report.objective = Objective();
      report.gap = 0.5 * gradient_.squaredNorm();
      if (report.gap <= options_.relative_gap * report.objective ||
          report.newton_iterations == options_.max_newton_iterations || progress.stopped()) {
        return report;
      }
      // With a large C the rounding of single precision outweighs the gradient: change to double, which costs more,
      // and when that makes no progress either, the numbers allow no better. Far from the minimum it is the objective
      // that falls while the gap may rise; near it, the gap.
      const bool progress_made =
          report.gap < 0.5 * least_gap || report.objective < (1 - 0.1 * options_.relative_gap) * least_objective;
      stalled = progress_made ? 0 : stalled + 1;
      if (stalled == kStalledIterations) {
        if (precise_) return report;
        precise_ = true;
        stalled = 0;
        UpdateMargins();
        UpdateActive();
        Gradient();
        least_gap = least_objective = std::numeric_limits<double>::infinity();
        continue;
      }
      least_gap = std::min(least_gap, report.gap);
      least_objective = std::min(least_objective, report.objective);

      if (!factor_ready_) Refresh();
      const int cg_iterations = SolveNewtonSystem();
      report.cg_iterations += cg_iterations;
      LineSearchStep();
      UpdateActive();
      Gradient();
      if (cg_iterations > kRefreshAfterCgIterations) factor_ready_ = false;
      ++report.newton_iterations;
    }
  }

  [[nodiscard]] const Eigen::VectorXd& w() const { return w_; }

 private:
  [[nodiscard]] Eigen::Index n() const { return x_.rows(); }
  [[nodiscard]] Eigen::Index d() const { return x_.cols(); }

  void UpdateMargins() {
    if (precise_) {
      for (Eigen::Index i = 0; i < n(); ++i) margins_[i] = x_.row(i).cast<double>().dot(w_) * y_[i];
      return;
    }
    const Eigen::VectorXf w = w_.cast<float>();
    for (Eigen::Index i = 0; i < n(); ++i) margins_[i] = static_cast<double>(x_.row(i).dot(w)) * y_[i];
  }

  void UpdateActive() {
    active_.clear();
    for (Eigen::Index i = 0; i < n(); ++i) {
      if (margins_[i] < 1) active_.push_back(static_cast<std::int32_t>(i));
    }
  }

  [[nodiscard]] double Objective() const {
    double loss = 0;
    for (const std::int32_t i : active_) loss += (1 - margins_[i]) * (1 - margins_[i]);
    return 0.5 * w_.squaredNorm() + c_ * loss;
  }

  // out += sum over the active rows of weight(i) * x_i.
  template <typename Weight>
  void AddActiveRows(Weight weight, Eigen::VectorXd& out) {
    partial_.setZero(d());
    Eigen::Index pending = 0;
    for (const std::int32_t i : active_) {
      const float factor = weight(i);
      if (factor != 0) partial_ += factor * x_.row(i).transpose();
      if (++pending == kSumRows) {
        out += partial_.cast<double>();
        partial_.setZero();
        pending = 0;
      }
    }
    out += partial_.cast<double>();
  }

  // grad P = w - 2 C sum over active of y xi x.
  void Gradient() {
    gradient_ = w_;
    if (precise_) {
      for (const std::int32_t i : active_) {
        gradient_ -= (2 * c_ * (1 - margins_[i]) * y_[i]) * x_.row(i).transpose().cast<double>();
      }
      return;
    }
    AddActiveRows([this](std::int32_t i) { return static_cast<float>(-2 * c_ * (1 - margins_[i])) * y_[i]; },
                  gradient_);
  }

  // out = (I / (2 C) + X_A^T X_A) v, the Hessian divided by 2 C.
  void ApplySystem(const Eigen::VectorXd& v, Eigen::VectorXd& out) {
    const Eigen::VectorXf v_float = v.cast<float>();
    out = v / (2 * c_);
    AddActiveRows([&](std::int32_t i) { return x_.row(i).dot(v_float); }, out);
  }

  // Brings X_A^T X_A up to date with the active set, then its factor with C. The factor is a preconditioner only, so
  // single precision and the rounding of many updates cost at most some conjugate gradient steps.
  void Refresh() {
    std::vector<std::int32_t> added, removed;
    if (system_ready_) {
      std::vector<bool> is_active(n());
      for (const std::int32_t i : active_) is_active[i] = true;
      for (Eigen::Index i = 0; i < n(); ++i) {
        if (is_active[i] && !in_system_[i]) added.push_back(static_cast<std::int32_t>(i));
        if (!is_active[i] && in_system_[i]) removed.push_back(static_cast<std::int32_t>(i));
      }
    }
    // Three ways to the same matrix: update, from all rows less the inactive ones, from the active ones.
    const std::size_t update_cost = system_ready_ ? added.size() + removed.size() : SIZE_MAX;
    const std::size_t complement_cost = static_cast<std::size_t>(n()) - active_.size();
    if (update_cost > std::min(complement_cost, active_.size())) {
      added.clear();
      removed.clear();
      if (complement_cost < active_.size()) {
        system_ = gram_;
        std::vector<bool> is_active(n());
        for (const std::int32_t i : active_) is_active[i] = true;
        for (Eigen::Index i = 0; i < n(); ++i) {
          if (!is_active[i]) removed.push_back(static_cast<std::int32_t>(i));
        }
      } else {
        system_.setZero(d(), d());
        added = active_;
      }
    }
    AddRows(added, 1);
    AddRows(removed, -1);
    std::fill(in_system_.begin(), in_system_.end(), false);
    for (const std::int32_t i : active_) in_system_[i] = true;
    system_ready_ = true;

    const auto ridge = static_cast<float>(1 / (2 * c_));
    float jitter = 0;
    for (;;) {
      factor_ = system_;
      factor_.diagonal().array() += ridge + jitter;
      if (CholeskyInPlace(factor_)) break;
      jitter = jitter == 0 ? 1e-6F * (system_.trace() / static_cast<float>(d()) + ridge) : 10 * jitter;
    }
    factor_c_ = c_;
    factor_ready_ = true;
  }

  void AddRows(const std::vector<std::int32_t>& rows, float sign) {
    gathered_.resize(kGatherRows, d());
    for (std::size_t begin = 0; begin < rows.size(); begin += kGatherRows) {
      const auto count = static_cast<Eigen::Index>(std::min<std::size_t>(kGatherRows, rows.size() - begin));
      for (Eigen::Index i = 0; i < count; ++i) gathered_.row(i) = x_.row(rows[begin + i]);
      AddGram(gathered_.data(), count, d(), sign, system_);
    }
  }

  // Preconditioned conjugate gradients for step_ in system * step = -gradient / (2 C). Returns the iterations.
  int SolveNewtonSystem() {
    Eigen::VectorXd residual = -gradient_ / (2 * c_);
    const double target = kCgTolerance * residual.norm();
    step_.setZero(d());
    Eigen::VectorXd z = Precondition(residual);
    Eigen::VectorXd direction = z;
    Eigen::VectorXd image(d());
    double rz = residual.dot(z);
    int iteration = 0;
    while (iteration < kMaxCgIterations) {
      ++iteration;
      ApplySystem(direction, image);
      const double curvature = direction.dot(image);
      if (!(curvature > 0)) break;
      const double length = rz / curvature;
      step_ += length * direction;
      residual -= length * image;
      if (residual.norm() <= target) break;
      z = Precondition(residual);
      const double next = residual.dot(z);
      direction = z + (next / rz) * direction;
      rz = next;
    }
    return iteration;
  }

  Eigen::VectorXd Precondition(const Eigen::VectorXd& residual) {
    // Scaled to unit size: single precision has little room for tiny residuals.
    const double scale = residual.norm();
    Eigen::VectorXf z = (residual / scale).cast<float>();
    CholeskySolve(factor_, z);
    return scale * z.cast<double>();
  }

  // Exact minimum of P along step_: the derivative is piecewise linear and increasing, so Newton steps on it, kept
  // inside a bracket, end after finitely many pieces.
  void LineSearchStep() {
    const Eigen::VectorXf step = step_.cast<float>();
    slopes_.resize(n());
    for (Eigen::Index i = 0; i < n(); ++i) slopes_[i] = static_cast<double>(x_.row(i).dot(step)) * y_[i];
    const double linear = w_.dot(step_);
    const double quadratic = step_.squaredNorm();
    double low = 0, high = std::numeric_limits<double>::infinity(), t = 1;
    for (int i = 0; i < 50; ++i) {
      double derivative = linear + t * quadratic;
      double second = quadratic;
      for (Eigen::Index j = 0; j < n(); ++j) {
        const double xi = 1 - margins_[j] - t * slopes_[j];
        if (xi > 0) {
          derivative -= 2 * c_ * xi * slopes_[j];
          second += 2 * c_ * slopes_[j] * slopes_[j];
        }
      }
      (derivative > 0 ? high : low) = t;
      double next = t - derivative / second;
      if (!(next > low && next < high)) next = std::isinf(high) ? 2 * t : 0.5 * (low + high);
      const bool converged = std::abs(next - t) <= 1e-9 * t;
      t = next;
      if (converged) break;
    }
    w_ += t * step_;
    // From w itself, not by adding to the old margins: rounding does not pile up.
    UpdateMargins();
  }

  const Eigen::Ref<const RowMatrixF> x_;  // [n][d], last column 1
  const RowMatrixF& gram_;                // X^T X, lower triangle
  const SvmOptions options_;
  double c_ = 0;
  std::vector<float> y_;         // [n]
  std::vector<double> margins_;  // y_i w.x_i, [n]
  std::vector<double> slopes_;   // y_i step.x_i, [n]
  std::vector<std::int32_t> active_;
  Eigen::VectorXd w_, gradient_, step_;
  Eigen::VectorXf partial_;

  RowMatrixF system_, factor_, gathered_;
  std::vector<bool> in_system_;  // rows that system_ holds
  bool system_ready_ = false, factor_ready_ = false;
  double factor_c_ = 0;
  bool precise_ = false;  // margins and gradient in double precision
};

RowMatrixF Gram(const Eigen::Ref<const RowMatrixF>& x, ThreadPool& pool) {
  // Block rows of the lower triangle are independent: no sums across threads.
  constexpr Eigen::Index kBlock = 128;
  const Eigen::Index d = x.cols();
  RowMatrixF gram = RowMatrixF::Zero(d, d);
  const auto blocks = static_cast<std::size_t>((d + kBlock - 1) / kBlock);
  pool.ParallelFor(blocks, [&](std::size_t block, int) {
    // Longest first, so that the threads end together.
    const auto i = static_cast<Eigen::Index>(blocks - 1 - block) * kBlock;
    const Eigen::Index size = std::min(kBlock, d - i);
    for (Eigen::Index row = 0; row < x.rows(); row += kGatherRows) {
      const Eigen::Index count = std::min(kGatherRows, x.rows() - row);
      Gemm(Op::kTranspose, Op::kNone, size, i + size, count, 1, x.row(row).data() + i, d, x.row(row).data(), d, 1,
           &gram(i, 0), d);
    }
  });
  return gram;
}

// With fewer rows than columns the solution is a combination of the rows, so the same problem in n coordinates will
// do: rows of L with L L^T = X X^T have the same inner products. Replaces X by L; v in the new coordinates is
// w = X^T L^-T v in the old ones.
class RowSpace {
 public:
  explicit RowSpace(const Eigen::Ref<const RowMatrixF>& x) : x_(x) {
    const Eigen::Index n = x.rows();
    RowMatrixD kernel(n, n);
    RowMatrixF block(n, kGatherRows);
    for (Eigen::Index first = 0; first < n; first += kGatherRows) {
      const Eigen::Index count = std::min(kGatherRows, n - first);
      Gemm(Op::kNone, Op::kTranspose, n, count, x.cols(), 1, x.data(), x.cols(), x.row(first).data(), x.cols(), 0,
           block.data(), kGatherRows);
      kernel.middleCols(first, count) = block.leftCols(count).cast<double>();
    }
    // Equal images give equal rows; single precision products give errors of about 1e-6.
    double jitter = 1e-6 * kernel.trace() / static_cast<double>(n);
    for (;; jitter *= 10) {
      RowMatrixD shifted = kernel;
      shifted.diagonal().array() += jitter;
      factor_.compute(shifted);
      if (factor_.info() == Eigen::Success) break;
    }
    rows_ = RowMatrixD(factor_.matrixL()).cast<float>();
  }

  [[nodiscard]] const RowMatrixF& rows() const { return rows_; }

  [[nodiscard]] Eigen::VectorXd ToColumns(const Eigen::VectorXd& v) const {
    const Eigen::VectorXd coefficients = factor_.matrixU().solve(v);
    return (x_.transpose() * coefficients.cast<float>()).cast<double>();
  }

  // Least-squares preimage: v = L^T a for the a whose w = X^T a is nearest.
  [[nodiscard]] Eigen::VectorXd FromColumns(const Eigen::VectorXd& w) const {
    const Eigen::VectorXd margins = (x_ * w.cast<float>()).cast<double>();
    return factor_.matrixL().solve(margins);
  }

 private:
  const Eigen::Ref<const RowMatrixF> x_;
  Eigen::LLT<RowMatrixD> factor_;
  RowMatrixF rows_;
};

}  // namespace

absl::StatusOr<std::vector<SvmPathPoint>> TrainSvmPath(const Eigen::Ref<const RowMatrixF>& x,
                                                       std::span<const int> labels, int classes,
                                                       std::span<const double> c_path, const SvmOptions& options,
                                                       const LinearSvm* initial, ThreadPool& pool,
                                                       const Progress& progress) {
  assert(static_cast<Eigen::Index>(labels.size()) == x.rows() && !c_path.empty());
  const Eigen::Index d = x.cols() - 1;
  std::optional<RowSpace> row_space;
  if (10 * x.rows() < 7 * x.cols()) row_space.emplace(x);
  const Eigen::Ref<const RowMatrixF> rows(row_space ? Eigen::Ref<const RowMatrixF>(row_space->rows()) : x);

  std::vector<SvmPathPoint> path(c_path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    path[i].c = c_path[i];
    path[i].svm.weights.resize(classes, d);
    path[i].svm.bias.resize(classes);
    path[i].reports.resize(classes);
  }
  const RowMatrixF gram = Gram(rows, pool);
  if (progress.stopped()) return StoppedError();

  std::vector<std::unique_ptr<BinarySolver>> solvers(pool.threads());
  pool.ParallelFor(classes, [&](std::size_t k, int worker) {
    if (solvers[worker] == nullptr) solvers[worker] = std::make_unique<BinarySolver>(rows, gram, options);
    BinarySolver& solver = *solvers[worker];
    std::vector<float> y(labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) y[i] = labels[i] == static_cast<int>(k) ? 1.0F : -1.0F;
    Eigen::VectorXd start = Eigen::VectorXd::Zero(x.cols());
    if (initial != nullptr) {
      start.head(d) = initial->weights.row(static_cast<Eigen::Index>(k)).transpose().cast<double>();
      start[d] = initial->bias[static_cast<Eigen::Index>(k)];
    }
    solver.Start(y, row_space ? row_space->FromColumns(start) : start);
    for (SvmPathPoint& point : path) {
      if (progress.stopped()) return;
      point.reports[k] = solver.Solve(point.c, progress);
      const Eigen::VectorXd w = row_space ? row_space->ToColumns(solver.w()) : solver.w();
      point.svm.weights.row(static_cast<Eigen::Index>(k)) = w.head(d).transpose().cast<float>();
      point.svm.bias[static_cast<Eigen::Index>(k)] = static_cast<float>(w[d]);
    }
  });
  if (progress.stopped()) return StoppedError();
  return path;
}

}  // namespace ckn
