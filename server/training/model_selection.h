#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/svm/linear_svm.h"
#include "server/training/progress.h"
#include "server/training/svm_solver.h"

namespace ckn {

// How C is chosen: on the last `held_out` rows, or by cross-validation when held_out is 0.
struct ValidationPlan {
  Eigen::Index held_out = 0;
  int folds = 5;
  // The grid, ascending: 2^-15 ... 2^15 in the paper.
  std::vector<double> c_grid;
};

struct TrainedClassifier {
  std::vector<Standardization> standardizations;  // one a network
  LinearSvm svm;
  double c = 0;
  double validation_error_percent = 0;  // at the chosen C
  // [c_grid], or fewer: where many features make each C costly, held-out validation ends once the best C is behind.
  std::vector<double> curve_error_percent;
};

// Rows to hold out for validation: the last `count`-th part of each class, as near to the classes' shares as rounding
// allows. Returns all rows, the ones to fit first, each part in ascending order.
std::vector<std::size_t> OrderForHoldOut(std::span<const int> labels, int classes, std::size_t count);

// Chooses C (the smallest of those with the least validation error) by machines trained to a relative gap of 1e-3, then
// trains on all rows at that C to options.relative_gap.
// x [n][features + 1], raw features and a column of ones; standardised in place (statistics of the rows that are
// fitted, never of the validation rows), each network's part, `feature_counts` wide, by itself. labels [n].
absl::StatusOr<TrainedClassifier> SelectAndTrain(RowMatrixF& x, std::span<const int> feature_counts,
                                                 std::span<const int> labels, int classes, const ValidationPlan& plan,
                                                 const SvmOptions& options, std::uint64_t seed, ThreadPool& pool,
                                                 const Progress& progress);

}  // namespace ckn
