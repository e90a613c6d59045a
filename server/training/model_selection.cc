#include "server/training/model_selection.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/base/status.h"
#include "server/simd/gemm.h"
#include "server/training/calibration.h"
#include "server/training/features.h"
#include "server/training/held_out_curve.h"
#include "server/training/random.h"

namespace ckn {
namespace {

constexpr std::uint64_t kFoldStream = 4'000'000;
// Margins that are kept until C is chosen, a GiB; where there would be more, the model has no probabilities.
constexpr double kMaxCalibrationScores = 1 << 28;
// While C is chosen: it moves the counts of errors by less than chance does (by one in 80 on MNIST), and spares the
// last Newton steps.
constexpr double kSelectionGap = 1e-3;

// Margins of the rows of standardised x: [rows][classes].
RowMatrixF Scores(const LinearSvm& svm, const Eigen::Ref<const RowMatrixF>& x, ThreadPool& pool) {
  constexpr Eigen::Index kBlock = 256;
  RowMatrixF scores(x.rows(), svm.classes());
  scores.rowwise() = svm.bias.transpose();
  pool.ParallelFor(static_cast<std::size_t>((x.rows() + kBlock - 1) / kBlock), [&](std::size_t block, int) {
    const Eigen::Index first = static_cast<Eigen::Index>(block) * kBlock;
    Gemm(Op::kNone, Op::kTranspose, std::min(kBlock, x.rows() - first), svm.classes(), svm.features(), 1,
         x.row(first).data(), x.outerStride(), svm.weights.data(), svm.features(), 1, scores.row(first).data(),
         svm.classes());
  });
  return scores;
}

// [rows]: whether the largest margin is another class's than the label.
std::vector<bool> WrongRows(const RowMatrixF& scores, std::span<const int> labels) {
  const std::vector<int> predicted = PredictedClasses(scores);
  std::vector<bool> wrong(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) wrong[i] = predicted[i] != labels[i];
  return wrong;
}

// fold[i] in [0, folds): a random one, balanced within each class.
std::vector<int> AssignFolds(std::span<const int> labels, int classes, int folds, std::uint64_t seed) {
  std::vector<std::vector<std::size_t>> by_class(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) by_class[labels[i]].push_back(i);
  Rng rng = MakeRng(seed, kFoldStream);
  std::vector<int> fold(labels.size());
  int next = 0;
  for (std::vector<std::size_t>& rows : by_class) {
    Shuffle(rng, rows);
    for (const std::size_t row : rows) fold[row] = next++ % folds;
  }
  return fold;
}

void ReportPath(const std::vector<SvmPathPoint>& path, double seconds, const Progress& progress) {
  int newton = 0, cg = 0;
  double worst_gap = 0;
  for (const SvmPathPoint& point : path) {
    for (const SvmReport& report : point.reports) {
      newton += report.newton_iterations;
      cg += report.cg_iterations;
      if (report.objective > 0) worst_gap = std::max(worst_gap, report.gap / report.objective);
    }
  }
  progress.report(absl::StrFormat("%d values of C, %d Newton and %d CG iterations, largest relative gap %.1e (%.1f s)",
                                  path.size(), newton, cg, worst_gap, seconds));
}

}  // namespace

std::vector<std::size_t> OrderForHoldOut(std::span<const int> labels, int classes, std::size_t count) {
  std::vector<std::size_t> class_size(classes);
  for (const int label : labels) ++class_size[label];
  // Round so that the shares add up: the running total of exact shares, rounded.
  std::vector<std::size_t> quota(classes);
  std::size_t seen = 0, given = 0;
  for (int k = 0; k < classes; ++k) {
    seen += class_size[k];
    const auto target = static_cast<std::size_t>(
        std::llround(static_cast<double>(seen) * static_cast<double>(count) / static_cast<double>(labels.size())));
    quota[k] = target - given;
    given = target;
  }
  std::vector<bool> held_out(labels.size());
  for (std::size_t i = labels.size(); i-- > 0;) {
    if (quota[labels[i]] == 0) continue;
    --quota[labels[i]];
    held_out[i] = true;
  }
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(), [&held_out](std::size_t i) { return !held_out[i]; });
  return order;
}

absl::StatusOr<TrainedClassifier> SelectAndTrain(RowMatrixF& x, std::span<const int> feature_counts,
                                                 std::span<const int> labels, int classes, const ValidationPlan& plan,
                                                 const SvmOptions& options, std::uint64_t seed, ThreadPool& pool,
                                                 const Progress& progress) {
  const Eigen::Index n = x.rows();
  SvmOptions path_options = options;
  path_options.relative_gap = std::max(options.relative_gap, kSelectionGap);
  std::vector<std::int64_t> errors(plan.c_grid.size());  // as many as are known
  // By C, the margins of the validated rows and their labels, for the calibration.
  std::vector<std::vector<RowMatrixF>> scores(plan.c_grid.size());
  std::vector<int> scored_labels;
  const bool calibrate =
      static_cast<double>(n) * classes * static_cast<double>(plan.c_grid.size()) <= kMaxCalibrationScores;
  Eigen::Index validated = 0;
  SvmPath path;
  // Trains the path on the first `fit` rows and adds the errors on the others.
  const auto train_path = [&](const Eigen::Ref<const RowMatrixF>& rows, std::span<const int> row_labels,
                              Eigen::Index fit) -> absl::Status {
    const auto start = std::chrono::steady_clock::now();
    const auto unseen = static_cast<std::size_t>(rows.rows() - fit);
    std::size_t known = 0;
    HeldOutCurve curve;
    CKN_ASSIGN_OR_RETURN(
        path, TrainSvmPath(rows.topRows(fit), row_labels.first(static_cast<std::size_t>(fit)), classes, plan.c_grid,
                           path_options, SvmStart{}, pool, progress, [&](const SvmPathPoint& point) {
                             RowMatrixF margins = Scores(point.svm, rows.bottomRows(unseen), pool);
                             std::vector<bool> wrong = WrongRows(margins, row_labels.last(unseen));
                             errors[known] += std::count(wrong.begin(), wrong.end(), true);
                             if (calibrate) scores[known].push_back(std::move(margins));
                             ++known;
                             // Folds add up, so all of them need all of the path.
                             if (plan.held_out == 0) return true;
                             progress.report(absl::StrFormat("C = 2^%g: %d of %d held-out images are wrong",
                                                             std::log2(point.c), errors[known - 1], unseen));
                             curve.Add(std::move(wrong));
                             return !curve.BestIsBehind();
                           }));
    errors.resize(known);
    validated += rows.rows() - fit;
    scored_labels.insert(scored_labels.end(), row_labels.end() - static_cast<std::ptrdiff_t>(unseen), row_labels.end());
    ReportPath(path.points, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), progress);
    return absl::OkStatus();
  };

  if (plan.c_grid.size() > 1 && plan.held_out > 0) {
    const Eigen::Index fit = n - plan.held_out;
    const std::vector<Standardization> standardizations = FitStandardizations(x.topRows(fit), feature_counts, pool);
    Standardize(standardizations, x, pool);
    CKN_RETURN_IF_ERROR(train_path(x, labels, fit));
    Unstandardize(standardizations, x, pool);
  } else if (plan.c_grid.size() > 1) {
    const std::vector<int> fold_of = AssignFolds(labels, classes, plan.folds, seed);
    for (int fold = 0; fold < plan.folds; ++fold) {
      std::vector<Eigen::Index> order(n);
      std::iota(order.begin(), order.end(), Eigen::Index{0});
      const auto middle =
          std::stable_partition(order.begin(), order.end(), [&](Eigen::Index i) { return fold_of[i] != fold; });
      const Eigen::Index fit = middle - order.begin();
      RowMatrixF ordered = x(order, Eigen::all);
      std::vector<int> ordered_labels(n);
      for (Eigen::Index i = 0; i < n; ++i) ordered_labels[i] = labels[order[i]];
      const std::vector<Standardization> standardizations =
          FitStandardizations(ordered.topRows(fit), feature_counts, pool);
      Standardize(standardizations, ordered, pool);
      progress.report(absl::StrFormat("fold %d of %d", fold + 1, plan.folds));
      CKN_RETURN_IF_ERROR(train_path(ordered, ordered_labels, fit));
    }
  }

  TrainedClassifier result;
  std::size_t best = 0;
  if (validated > 0) {
    for (std::size_t i = 0; i < errors.size(); ++i) {
      if (errors[i] < errors[best]) best = i;
      result.curve_error_percent.push_back(100.0 * static_cast<double>(errors[i]) / static_cast<double>(validated));
    }
    result.validation_error_percent = result.curve_error_percent[best];
    progress.report(absl::StrFormat("C = 2^%g, validation error %.2f %% (%d of %d)", std::log2(plan.c_grid[best]),
                                    result.validation_error_percent, errors[best], validated));
  }
  result.c = plan.c_grid[best];

  const auto start = std::chrono::steady_clock::now();
  result.standardizations = FitStandardizations(x, feature_counts, pool);
  Standardize(result.standardizations, x, pool);
  const double c[] = {result.c};
  SvmOptions last_options = options;
  SvmStart last_start;
  if (!path.points.empty()) {
    const SvmPathPoint& chosen = path.points[best];
    // By the solver that was the better one for this C.
    if (options.solver == SvmSolver::kAutomatic) last_options.solver = chosen.solver;
    last_start = {&chosen.svm, std::move(path.gram), path.rows};
  }
  CKN_ASSIGN_OR_RETURN(SvmPath last,
                       TrainSvmPath(x, labels, classes, c, last_options, std::move(last_start), pool, progress));
  ReportPath(last.points, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), progress);
  result.svm = std::move(last.points.front().svm);
  if (validated > 0 && calibrate) {
    RowMatrixF margins(validated, classes);
    Eigen::Index row = 0;
    for (const RowMatrixF& part : scores[best]) {
      margins.middleRows(row, part.rows()) = part;
      row += part.rows();
    }
    result.svm.probability_scale = static_cast<float>(FitProbabilityScale(margins, scored_labels));
  }
  return result;
}

}  // namespace ckn
