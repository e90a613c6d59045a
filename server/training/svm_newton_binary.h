#pragma once

#include <memory>
#include <vector>

#include "server/base/matrix.h"
#include "server/training/progress.h"
#include "server/training/svm_solver.h"

namespace ckn {

// Newton's method for one class at a time, its own Cholesky factor of (nearly) the exact Hessian as preconditioner:
// takes few iterations, cheap ones while d^3 is small, or few rows violate the margin. Runs on the calling thread; one
// object serves any number of classes.
class BinaryNewton {
 public:
  // x [n][d] with a last column of ones; gram: the lower triangle of x^T x; kernel: that of x x^T, or empty, then the
  // violators' factor is not used. Keeps references to all three.
  BinaryNewton(const Eigen::Ref<const RowMatrixF>& x, const RowMatrixF& gram, const RowMatrixF& kernel,
               const SvmOptions& options);
  ~BinaryNewton();
  BinaryNewton(const BinaryNewton&) = delete;
  BinaryNewton& operator=(const BinaryNewton&) = delete;

  // Begins with another class: y [n] is +-1, w0 the first point.
  void Start(const std::vector<float>& y, const Eigen::VectorXd& w0);
  // Minimises the objective of svm_solver.h for this C from w() on; unfinished when `progress` says stop.
  SvmReport Solve(double c, const Progress& progress);
  [[nodiscard]] const Eigen::VectorXd& w() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ckn
