#include "server/training/svm_solver.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "server/simd/gemm.h"
#include "server/training/cholesky.h"
#include "server/training/svm_newton_binary.h"
#include "server/training/svm_newton_joint.h"

namespace ckn {
namespace {

constexpr Eigen::Index kGatherRows = 1024;

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

// The rows to train on and the way back from their coordinates.
class Coordinates {
 public:
  explicit Coordinates(const Eigen::Ref<const RowMatrixF>& x) : x_(x) {
    if (10 * x.rows() < 7 * x.cols()) row_space_.emplace(x);
  }
  [[nodiscard]] Eigen::Ref<const RowMatrixF> rows() const {
    return row_space_ ? Eigen::Ref<const RowMatrixF>(row_space_->rows()) : x_;
  }
  [[nodiscard]] Eigen::VectorXd FromModel(const LinearSvm& svm, Eigen::Index k) const {
    Eigen::VectorXd v(svm.weights.cols() + 1);
    v.head(svm.weights.cols()) = svm.weights.row(k).transpose().cast<double>();
    v[svm.weights.cols()] = svm.bias[k];
    return row_space_ ? row_space_->FromColumns(v) : v;
  }
  void ToModel(const Eigen::VectorXd& v, Eigen::Index k, LinearSvm& svm) const {
    const Eigen::VectorXd w = row_space_ ? row_space_->ToColumns(v) : v;
    svm.weights.row(k) = w.head(w.size() - 1).transpose().cast<float>();
    svm.bias[k] = static_cast<float>(w[w.size() - 1]);
  }

 private:
  const Eigen::Ref<const RowMatrixF> x_;
  std::optional<RowSpace> row_space_;
};

// Point after point, all classes at a time.
void TrainJointly(const Coordinates& coordinates, std::span<const int> labels, int classes, const SvmOptions& options,
                  const LinearSvm* initial, ThreadPool& pool, const Progress& progress, const OnPathPoint& on_point,
                  std::vector<SvmPathPoint>& path) {
  const Eigen::Ref<const RowMatrixF> rows = coordinates.rows();
  JointNewton solver(rows, labels, classes, options, pool);
  if (initial != nullptr) {
    RowMatrixD v(classes, rows.cols());
    for (int k = 0; k < classes; ++k) v.row(k) = coordinates.FromModel(*initial, k).transpose();
    solver.Start(v);
  }
  for (std::size_t i = 0; i < path.size() && !progress.stopped(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    path[i].reports = solver.Solve(path[i].c, progress);
    if (progress.stopped()) return;
    for (int k = 0; k < classes; ++k) coordinates.ToModel(solver.v().row(k).transpose(), k, path[i].svm);
    int newton = 0, cg = 0;
    double gap = 0;
    for (const SvmReport& report : path[i].reports) {
      newton = std::max(newton, report.newton_iterations);
      cg = std::max(cg, report.cg_iterations);
      gap = std::max(gap, report.gap / report.objective);
    }
    progress.report(absl::StrFormat("C = 2^%g: %d Newton and %d CG iterations, relative gap %.1e (%.1f s)",
                                    std::log2(path[i].c), newton, cg, gap,
                                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
    if (on_point && !on_point(path[i])) path.resize(i + 1);
  }
}

// Class after class, each along the whole path.
void TrainClassByClass(const Coordinates& coordinates, std::span<const int> labels, int classes,
                       const SvmOptions& options, const LinearSvm* initial, ThreadPool& pool, const Progress& progress,
                       std::vector<SvmPathPoint>& path) {
  const Eigen::Ref<const RowMatrixF> rows = coordinates.rows();
  const RowMatrixF gram = Gram(rows, pool);
  if (progress.stopped()) return;
  std::vector<std::unique_ptr<BinaryNewton>> solvers(pool.threads());
  pool.ParallelFor(classes, [&](std::size_t class_index, int worker) {
    const auto k = static_cast<Eigen::Index>(class_index);
    if (solvers[worker] == nullptr) solvers[worker] = std::make_unique<BinaryNewton>(rows, gram, options);
    BinaryNewton& solver = *solvers[worker];
    std::vector<float> y(labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) y[i] = labels[i] == static_cast<int>(k) ? 1.0F : -1.0F;
    solver.Start(y, initial != nullptr ? coordinates.FromModel(*initial, k) : Eigen::VectorXd::Zero(rows.cols()));
    for (SvmPathPoint& point : path) {
      if (progress.stopped()) return;
      point.reports[class_index] = solver.Solve(point.c, progress);
      coordinates.ToModel(solver.w(), k, point.svm);
    }
  });
}

}  // namespace

absl::StatusOr<std::vector<SvmPathPoint>> TrainSvmPath(const Eigen::Ref<const RowMatrixF>& x,
                                                       std::span<const int> labels, int classes,
                                                       std::span<const double> c_path, const SvmOptions& options,
                                                       const LinearSvm* initial, ThreadPool& pool,
                                                       const Progress& progress, const OnPathPoint& on_point) {
  assert(static_cast<Eigen::Index>(labels.size()) == x.rows() && !c_path.empty());
  const Coordinates coordinates(x);
  std::vector<SvmPathPoint> path(c_path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    path[i].c = c_path[i];
    path[i].svm.weights.resize(classes, x.cols() - 1);
    path[i].svm.bias.resize(classes);
    path[i].reports.resize(classes);
  }
  if (coordinates.rows().cols() >= options.joint_from_columns) {
    TrainJointly(coordinates, labels, classes, options, initial, pool, progress, on_point, path);
  } else {
    TrainClassByClass(coordinates, labels, classes, options, initial, pool, progress, path);
    for (const SvmPathPoint& point : path) {
      if (on_point && !progress.stopped()) on_point(point);
    }
  }
  if (progress.stopped()) return StoppedError();
  return path;
}

}  // namespace ckn
