#pragma once

#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/svm/linear_svm.h"
#include "server/training/progress.h"

namespace ckn {

// Both minimise the same objectives to the same gap. kJoint (svm_newton_joint.h) is the faster one while many rows
// violate the margin, that is for small C, and the only one whose memory does not grow with the classes times the
// square of the features; kBinary (svm_newton_binary.h) copes better with few violators. kAutomatic begins jointly and
// changes when that gets slow, unless the features are too many for it.
enum class SvmSolver { kAutomatic, kJoint, kBinary };

struct SvmOptions {
  // Stop when the duality gap is at most this part of the objective.
  double relative_gap = 1e-5;
  int max_newton_iterations = 200;
  SvmSolver solver = SvmSolver::kAutomatic;
};

// One trained binary problem.
struct SvmReport {
  double objective = 0;  // P(w), see TrainSvmPath
  double gap = 0;        // P(w) - D(alpha) >= P(w) - min P
  int newton_iterations = 0;
  int cg_iterations = 0;
};

struct SvmPathPoint {
  double c = 0;
  LinearSvm svm;
  std::vector<SvmReport> reports;        // [classes]
  SvmSolver solver = SvmSolver::kJoint;  // the one that made it, kJoint or kBinary
};

struct SvmPath {
  std::vector<SvmPathPoint> points;
  // Lower triangle of X^T X of the rows that were trained on, and their number; empty where they were fewer than the
  // columns, and only their inner products with each other were needed.
  RowMatrixF gram;
  Eigen::Index rows = 0;
};

// Where training begins.
struct SvmStart {
  const LinearSvm* svm = nullptr;  // of the result's shape; without, at zero
  // Of `rows` other rows that are much alike, or empty. kJoint takes it, for its own number of rows, as preconditioner
  // in place of its own: with many features that is worth dozens of iterations. The others ignore it.
  RowMatrixF gram = {};
  Eigen::Index rows = 0;
};

// Told each point of a path, in ascending order of C; false ends the path there. (Points that were found together are
// all told before it ends.)
using OnPathPoint = std::function<bool(const SvmPathPoint& point)>;

// Trains one-vs-rest linear SVMs for each C of an ascending path, each warm-started from the one before.
//
// For class k, with y_i = 1 if labels[i] == k and -1 otherwise, and v = [w, b],
//   P(v) = ||v||^2 / 2 + C sum_i max(0, 1 - y_i v.[x_i, 1])^2
// (L2-regularised, squared hinge, the bias as the weight of a constant feature: LIBLINEAR's "-s 2 -B 1").
//
// x: [n][d] standardised features followed by a column of ones, so x.cols() is d + 1. labels[i] in [0, classes).
// Primal active-set Newton method: the generalised Hessian over the margin violators, solved by preconditioned
// conjugate gradients, and an exact line search. With alpha_i = 2 C xi_i the duality gap is ||grad P||^2 / 2, so it is
// known at no cost. The result does not depend on the number of threads.
absl::StatusOr<SvmPath> TrainSvmPath(const Eigen::Ref<const RowMatrixF>& x, std::span<const int> labels, int classes,
                                     std::span<const double> c_path, const SvmOptions& options, SvmStart start,
                                     ThreadPool& pool, const Progress& progress, const OnPathPoint& on_point = {});

}  // namespace ckn
