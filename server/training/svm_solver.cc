#include "server/training/svm_solver.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
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
  [[nodiscard]] bool row_space() const { return row_space_.has_value(); }
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

// Too many columns for a matrix of its own for each thread.
constexpr Eigen::Index kMaxBinaryColumns = 8000;
// From this many conjugate gradient iterations for one C on the joint solver leaves the rest to the other one.
constexpr int kManyCgIterations = 100;

// Seconds of work that are worth a line.
constexpr double kReportFrom = 5;

// Lower triangle of X^T X, or of something near it for the joint solver's preconditioner.
RowMatrixF GramOrStart(const Coordinates& coordinates, const SvmOptions& options, SvmStart& start, ThreadPool& pool) {
  const Eigen::Ref<const RowMatrixF> rows = coordinates.rows();
  const bool serves = options.solver == SvmSolver::kJoint && !coordinates.row_space() && start.rows > 0 &&
                      start.gram.rows() == rows.cols();
  if (!serves) return Gram(rows, pool);
  start.gram *= static_cast<float>(rows.rows()) / static_cast<float>(start.rows);
  return std::move(start.gram);
}

// A path in the making.
struct PathProblem {
  const Coordinates& coordinates;
  std::span<const int> labels;
  int classes;
  const SvmOptions& options;
  ThreadPool& pool;
  const Progress& progress;
  const OnPathPoint& on_point;
  RowMatrixF gram;    // lower triangle of X^T X
  RowMatrixD v = {};  // [classes][columns], where the next point begins
  std::vector<SvmPathPoint> path = {};
  std::size_t done = 0;  // points of the path
  bool ended = false;    // by on_point

  [[nodiscard]] bool Unfinished() const { return !ended && done < path.size() && !progress.stopped(); }
};

// The next points, each for all classes at the same time. Stops early when `leave_when_slow` and one took many
// iterations.
void TrainJointly(bool leave_when_slow, PathProblem& problem) {
  JointNewton solver(problem.coordinates.rows(), problem.gram, problem.labels, problem.classes, problem.options,
                     problem.pool);
  solver.Start(problem.v);
  for (int cg = 0; problem.Unfinished() && !(leave_when_slow && cg >= kManyCgIterations);) {
    SvmPathPoint& point = problem.path[problem.done];
    const auto start = std::chrono::steady_clock::now();
    point.reports = solver.Solve(point.c, problem.progress);
    if (problem.progress.stopped()) return;
    cg = 0;
    int newton = 0;
    double gap = 0;
    for (int k = 0; k < problem.classes; ++k) {
      problem.coordinates.ToModel(solver.v().row(k).transpose(), k, point.svm);
      newton = std::max(newton, point.reports[k].newton_iterations);
      cg = std::max(cg, point.reports[k].cg_iterations);
      gap = std::max(gap, point.reports[k].gap / point.reports[k].objective);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (seconds > kReportFrom) {
      problem.progress.report(absl::StrFormat("C = 2^%g: %d Newton and %d CG iterations, relative gap %.1e (%.1f s)",
                                              std::log2(point.c), newton, cg, gap, seconds));
    }
    ++problem.done;
    problem.ended = problem.on_point && !problem.on_point(point);
  }
  problem.v = solver.v();
}

// Rows whose inner products with each other are worth a GiB.
constexpr Eigen::Index kMaxKernelRows = 16'384;

// Points that are found together: each class goes through them by itself.
constexpr std::size_t kPointsTogether = 4;

// The inner products of the rows, where they save more work than they are: every problem a factor of X^T X.
RowMatrixF KernelForClasses(const PathProblem& problem) {
  const Eigen::Ref<const RowMatrixF> rows = problem.coordinates.rows();
  const auto n = static_cast<double>(rows.rows());
  const auto d = static_cast<double>(rows.cols());
  const double problems =
      static_cast<double>(problem.classes) * static_cast<double>(problem.path.size() - problem.done);
  const bool worth_it = rows.rows() <= kMaxKernelRows && n * n < problems * d * d / 3;
  return worth_it ? Kernel(rows, problem.pool) : RowMatrixF();
}

// The next points, class after class.
void TrainClassByClass(const RowMatrixF& kernel, PathProblem& problem) {
  const Eigen::Ref<const RowMatrixF> rows = problem.coordinates.rows();
  std::vector<std::unique_ptr<BinaryNewton>> solvers(problem.pool.threads());
  const std::span<SvmPathPoint> points = std::span(problem.path)
                                             .subspan(problem.done)
                                             .first(std::min(kPointsTogether, problem.path.size() - problem.done));
  absl::Mutex mu;  // one report at a time
  int finished = 0;
  problem.pool.ParallelFor(problem.classes, [&](std::size_t class_index, int worker) {
    const auto start = std::chrono::steady_clock::now();
    const auto k = static_cast<Eigen::Index>(class_index);
    if (solvers[worker] == nullptr) {
      solvers[worker] = std::make_unique<BinaryNewton>(rows, problem.gram, kernel, problem.options);
    }
    BinaryNewton& solver = *solvers[worker];
    std::vector<float> y(problem.labels.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = problem.labels[i] == static_cast<int>(k) ? 1.0F : -1.0F;
    solver.Start(y, problem.v.row(k).transpose());
    for (SvmPathPoint& point : points) {
      if (problem.progress.stopped()) return;
      point.reports[class_index] = solver.Solve(point.c, problem.progress);
      problem.coordinates.ToModel(solver.w(), k, point.svm);
    }
    problem.v.row(k) = solver.w().transpose();  // each class has its own row
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const absl::MutexLock lock(&mu);
    ++finished;
    if (seconds > kReportFrom) {
      problem.progress.report(absl::StrFormat("class by class, %d values of C: %d of %d classes done (%.1f s)",
                                              points.size(), finished, problem.classes, seconds));
    }
  });
  if (problem.progress.stopped()) return;
  for (SvmPathPoint& point : points) {
    point.solver = SvmSolver::kBinary;
    ++problem.done;
    // All are told, also after it has ended.
    problem.ended = (problem.on_point && !problem.on_point(point)) || problem.ended;
  }
}

}  // namespace

absl::StatusOr<SvmPath> TrainSvmPath(const Eigen::Ref<const RowMatrixF>& x, std::span<const int> labels, int classes,
                                     std::span<const double> c_path, const SvmOptions& options, SvmStart start,
                                     ThreadPool& pool, const Progress& progress, const OnPathPoint& on_point) {
  assert(static_cast<Eigen::Index>(labels.size()) == x.rows() && !c_path.empty());
  const Coordinates coordinates(x);
  PathProblem problem{coordinates, labels,   classes,  options,
                      pool,        progress, on_point, GramOrStart(coordinates, options, start, pool)};
  const Eigen::Index columns = coordinates.rows().cols();
  problem.v.setZero(classes, columns);
  if (start.svm != nullptr) {
    for (int k = 0; k < classes; ++k) problem.v.row(k) = coordinates.FromModel(*start.svm, k).transpose();
  }
  problem.path.resize(c_path.size());
  for (std::size_t i = 0; i < c_path.size(); ++i) {
    problem.path[i].c = c_path[i];
    problem.path[i].svm.weights.resize(classes, x.cols() - 1);
    problem.path[i].svm.bias.resize(classes);
    problem.path[i].reports.resize(classes);
  }
  if (options.solver != SvmSolver::kBinary) {
    TrainJointly(options.solver == SvmSolver::kAutomatic && columns <= kMaxBinaryColumns, problem);
  }
  if (problem.Unfinished()) {
    const RowMatrixF kernel = KernelForClasses(problem);
    while (problem.Unfinished()) TrainClassByClass(kernel, problem);
  }
  if (progress.stopped()) return StoppedError();
  problem.path.resize(problem.done);
  SvmPath path;
  path.points = std::move(problem.path);
  if (!coordinates.row_space()) {
    path.gram = std::move(problem.gram);
    path.rows = x.rows();
  }
  return path;
}

}  // namespace ckn
