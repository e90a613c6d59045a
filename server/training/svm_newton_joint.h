#pragma once

#include <span>
#include <vector>

#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/training/progress.h"
#include "server/training/svm_solver.h"

namespace ckn {

// Newton's method for the problems of all classes at the same time, for features too many to factor a matrix a class:
// one pass over the rows serves every class, and one Cholesky factor preconditions them all.
//
// The Newton system of class k is (I / (2 C) + X_A^T X_A) step = -grad / (2 C), A the rows that violate the margin.
// With a share a of the rows in A it is much like a (I / (2 C a) + X^T X), the preconditioner, where the violators are
// many; what few violators leave open, the first term settles.
class JointNewton {
 public:
  // x [n][d] with a last column of ones; gram: the lower triangle of x^T x; labels [n] in [0, classes). Keeps
  // references to them. Takes d^2 floats.
  JointNewton(const Eigen::Ref<const RowMatrixF>& x, const RowMatrixF& gram, std::span<const int> labels, int classes,
              const SvmOptions& options, ThreadPool& pool);

  // [classes][d], the bias last; zero in the beginning.
  [[nodiscard]] const RowMatrixD& v() const { return v_; }
  void Start(const RowMatrixD& v) { v_ = v; }

  // Minimises the objectives of svm_solver.h for this C from v() on. [classes]; unfinished when `progress` says stop.
  std::vector<SvmReport> Solve(double c, const Progress& progress);

 private:
  using Classes = std::vector<int>;

  [[nodiscard]] Eigen::Index n() const { return x_.rows(); }
  [[nodiscard]] Eigen::Index d() const { return x_.cols(); }
  [[nodiscard]] double Sign(Eigen::Index row, int k) const { return labels_[row] == k ? 1 : -1; }

  // products [n][m] = x v^T, v [m][d].
  void Multiply(const RowMatrixF& v, RowMatrixF& products);
  // sums [m][d] += for each row i and j: weight_ij x_i, where `weigh(first, block)` turns the products of the block's
  // rows with v into weights, or fills them when there is no v. Rows in which no class of `classes` is violated are
  // skipped.
  template <typename Weigh>
  void AddViolators(const Classes& classes, const RowMatrixF* v, Weigh weigh, RowMatrixD& sums);

  void UpdateMargins();
  void UpdateGradients(const Classes& classes);
  [[nodiscard]] double Objective(int k) const;
  void Factor(const Classes& classes);
  // steps_ of these classes by conjugate gradients. Returns the iterations.
  int SolveSystems(const Classes& classes, const Progress& progress);
  // v_ of these classes to the minimum along steps_.
  void LineSearch(const Classes& classes);

  const Eigen::Ref<const RowMatrixF> x_;
  const std::span<const int> labels_;
  const int classes_;
  const SvmOptions options_;
  ThreadPool& pool_;

  double c_ = 0;
  RowMatrixD v_, gradients_, steps_;  // [classes][d]
  RowMatrixD margins_;                // [classes][n], y_ik x_i . v_k
  const RowMatrixF& gram_;            // lower triangle, [d][d]
  RowMatrixF factor_;                 // of the preconditioner
  double factor_shift_ = 0;           // 1 / (2 C a) in factor_; 0: there is none
  double work_since_factor_ = 0;      // multiplications of conjugate gradients with it
};

}  // namespace ckn
