#pragma once

#include <span>
#include <vector>

#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/training/patch_pairs.h"

namespace ckn {

// Problem (4) of the paper on n pairs of unit vectors:
//   f(W, eta) = (1/n) sum_i (k_i - sum_l eta_l exp(-||x_i - w_l||^2 / sigma^2) exp(-||y_i - w_l||^2 / sigma^2))^2,
//   k_i = exp(-||x_i - y_i||^2 / (2 sigma^2)).
// For unit x and y the product of the two exponentials depends on s = x + y alone,
//   q_il = exp((2 w_l.s_i - 2 - 2 ||w_l||^2) / sigma^2),
// so one evaluation costs one matrix product for the q and one for the gradient.
//
// Variables are laid out as [w_1 ... w_p, eta_1 ... eta_p], w row after row.
//
// Subspace coordinates are other variables for the same objective, [v_1 ... v_p, a_1 ... a_p]:
// - w_l = v_l B for a basis B of few orthonormal rows. Since w_l.s_i = v_l.(B s_i) and ||w_l|| = ||v_l||, an evaluation
//   costs so much less.
// - a_l = eta_l exp(-2 (1 - ||w_l||)^2 / sigma^2), the largest that eta_l q_il can be, at x = y = w_l / ||w_l||. When
//   ||w_l|| changes at this a_l, the activation gets narrower or wider but not higher. With eta_l in its place both
//   change at once, steeply, and L-BFGS-B needs many iterations more for the same objective.
// - Filters end at a norm of 1 + 2.8 sigma, where eta_l is 6.5e6 a_l: a longer v_l stands for that one. Some would get
//   ever longer and narrower, until no number can hold their eta.
class KernelApproximation {
 public:
  // Consumes the pairs. basis [dim()][values of a patch]: subspace coordinates; empty: w and eta. The pool must outlive
  // this object.
  KernelApproximation(PatchPairs pairs, double sigma, int filters, ThreadPool& pool, const RowMatrixF& basis = {});

  [[nodiscard]] Eigen::Index pair_count() const { return sums_.rows(); }
  [[nodiscard]] int dim() const { return static_cast<int>(sums_.cols()); }
  [[nodiscard]] int filters() const { return filters_; }
  [[nodiscard]] std::size_t variable_count() const { return static_cast<std::size_t>(filters_) * (dim() + 1); }

  // f at `variables`. gradient has variable_count() entries, or is empty when only f is wanted.
  // Single precision inside, sums in double; the result does not depend on the number of threads.
  double Evaluate(std::span<const double> variables, std::span<double> gradient) const;

  // w of variables in subspace coordinates, [filters][dim()], and eta, [filters], both as the objective sees them.
  [[nodiscard]] RowMatrixD Filters(std::span<const double> variables) const;
  [[nodiscard]] Eigen::VectorXd Eta(std::span<const double> variables) const;

  // The eta >= 0 (or a), the same for all l, that minimises f for these filters [filters][dim].
  double BestConstantEta(const RowMatrixF& filters) const;

  // Mean of k_i^2: f at eta = 0, what f is to be compared with.
  [[nodiscard]] double KernelEnergy() const;

  // Floating-point operations of one Evaluate with gradient, products only.
  [[nodiscard]] double FlopsPerEvaluation() const;

 private:
  struct Partial;

  // Calls visit(first_row, rows, q) for each tile of q [rows][filters], tiles of one chunk in order on one thread.
  template <typename Visit>
  void ForEachTile(const RowMatrixF& w, Visit visit) const;
  [[nodiscard]] std::size_t chunks() const;

  RowMatrixF sums_;          // s_i = x_i + y_i, or B s_i, [n][dim]
  Eigen::VectorXf targets_;  // k_i, [n]
  double sigma_;
  bool subspace_;
  double longest_;  // norm of a filter
  int filters_;
  ThreadPool& pool_;
};

}  // namespace ckn
