#include "server/training/layer_learner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/base/status.h"
#include "server/training/kernel_approximation.h"
#include "server/training/kmeans.h"
#include "server/training/lbfgsb.h"
#include "server/training/nystrom.h"
#include "server/training/random.h"
#include "server/training/stochastic_learner.h"
#include "server/training/whitening.h"

namespace ckn {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::uint64_t kRandomFiltersStream = 3'000'000;
constexpr std::uint64_t kBlockStream = std::uint64_t{1} << 32;
// An eta beyond this means activations of no more than rounding errors.
constexpr double kMaxInitialEta = 1e9;
// In subspace coordinates: the norm of the first filters, near to that of the last; the correction pairs of L-BFGS-B.
// With k-means' own norms of 0.9, and with 10 pairs, the same objective takes more iterations (CIFAR-10, CKN-PM).
constexpr double kSubspaceNorm = 1.1;
constexpr int kSubspaceMemory = 20;
// Of one layer: more patches than fit into the memory of any machine that this is meant for.
constexpr std::int64_t kMaxPairs = 100'000'000;
constexpr auto kReportEvery = std::chrono::seconds(5);
constexpr auto kSaveEvery = std::chrono::seconds(60);

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Gaussian noise scaled to unit expected norm, the norm that solutions of problem (4) have.
RowMatrixF RandomFilters(int filters, Eigen::Index dim, std::uint64_t seed) {
  Rng rng = MakeRng(seed, kRandomFiltersStream);
  const auto uniform = [&rng] { return (static_cast<double>(rng() >> 11) + 0.5) * 0x1.0p-53; };
  RowMatrixF out(filters, dim);
  for (Eigen::Index i = 0; i < out.size(); ++i) {  // Box-Muller
    out.data()[i] = static_cast<float>(std::sqrt(-2 * std::log(uniform()) / static_cast<double>(dim)) *
                                       std::cos(2 * std::numbers::pi * uniform()));
  }
  return out;
}

void BringToNorm(double norm, RowMatrixF& filters) {
  for (auto filter : filters.rowwise()) {
    if (filter.squaredNorm() > 0) filter *= static_cast<float>(norm) / filter.norm();
  }
}

PatchPairs TakeLast(PatchPairs& pairs, Eigen::Index count) {
  PatchPairs last{pairs.x.bottomRows(count), pairs.y.bottomRows(count)};
  pairs.x.conservativeResize(pairs.size() - count, Eigen::NoChange);
  pairs.y.conservativeResize(pairs.x.rows(), Eigen::NoChange);
  return last;
}

// Where learning begins.
struct Start {
  double sigma = 0;
  RowMatrixF filters;  // [filters][dim]; none for the Nystrom method, which has its own
};

absl::StatusOr<Start> Begin(const LayerPlan& plan, const PatchPairs& pairs, const LearningOptions& options,
                            std::uint64_t seed, const LayerCheckpoint& checkpoint, ThreadPool& pool,
                            const Progress& progress) {
  const auto begin = SteadyClock::now();
  Start start;
  start.sigma = plan.sigma > 0 ? plan.sigma : DistanceQuantile(pairs, plan.sigma_quantile);
  if (!(start.sigma >= kMinSigma)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("sigma: the %g quantile of the distance between patches is %g, expected at least %g; set the "
                        "layer's sigma, or a larger sigma_quantile, in the recipe",
                        plan.sigma_quantile, start.sigma, kMinSigma));
  }
  progress.report(absl::StrFormat("%d pairs of %dx%dx%d patches, sigma %.4f (%.1f s)", pairs.size(),
                                  plan.layer.patch_size, plan.layer.patch_size, plan.layer.in_channels, start.sigma,
                                  SecondsSince(begin)));
  if (options.method == LearningMethod::kNystrom) return start;
  const bool stochastic = options.method == LearningMethod::kStochastic;
  if (options.init == FilterInit::kRandom) {
    start.filters = RandomFilters(plan.filters, pairs.x.cols(), seed);
  } else if (checkpoint.restored.empty() || stochastic) {  // L-BFGS-B's state has all of the point
    const Eigen::Index points = std::min<Eigen::Index>(pairs.size(), options.kmeans_points);
    CKN_ASSIGN_OR_RETURN(start.filters, KMeans(pairs.x.topRows(points), plan.filters, options.kmeans_iterations,
                                               Centroids::kMeans, seed, pool, progress));
    progress.report(absl::StrFormat("k-means of %d points done (%.1f s)", points, SecondsSince(begin)));
  } else {
    start.filters.setZero(plan.filters, pairs.x.cols());
  }
  return start;
}

absl::StatusOr<double> CheckEta(double eta, double sigma) {
  if (std::isfinite(eta) && eta > 0 && eta < kMaxInitialEta) return eta;
  return absl::FailedPreconditionError(
      absl::StrFormat("the first filters are so far from the patches, for sigma = %.4g, that the objective has no "
                      "slope (best eta %g); start from k-means or give a larger sigma",
                      sigma, eta));
}

// The best eta that all filters share.
absl::StatusOr<double> FirstEta(const Start& start, const PatchPairs& pairs, ThreadPool& pool) {
  const KernelApproximation problem(pairs, start.sigma, static_cast<int>(start.filters.rows()), pool);
  return CheckEta(problem.BestConstantEta(start.filters), start.sigma);
}

}  // namespace

Layer OrientationLayer(int orientations) {
  Layer layer;
  layer.patch_size = 1;
  layer.in_channels = 2;
  layer.learned = false;
  layer.sigma = static_cast<float>(2 * std::numbers::pi / orientations);
  layer.filters.resize(orientations, 2);
  for (int l = 0; l < orientations; ++l) {
    const double theta = 2 * std::numbers::pi * l / orientations;
    layer.filters(l, 0) = static_cast<float>(std::cos(theta));
    layer.filters(l, 1) = static_cast<float>(std::sin(theta));
  }
  layer.eta.setOnes(orientations);
  return layer;
}

absl::StatusOr<LearnedLayer> LearnLayer(const LayerPlan& plan, std::size_t images,
                                        const std::function<FeatureMap(std::size_t i, int worker)>& map_of,
                                        const LearningOptions& options, std::uint64_t seed, std::uint64_t stream,
                                        const LayerCheckpoint& checkpoint, ThreadPool& pool, const Progress& progress) {
  const std::int64_t wanted =
      options.pairs * (options.method == LearningMethod::kProblem4 ? std::int64_t{plan.pairs_factor} : 1);
  if (wanted > kMaxPairs) {
    return absl::InvalidArgumentError(
        absl::StrFormat("pairs: got %d and pairs_factor %d, expected at most %d pairs in all", options.pairs,
                        plan.pairs_factor, kMaxPairs));
  }
  const std::int64_t held_out =
      std::max<std::int64_t>(1, std::llround(static_cast<double>(wanted) * options.held_out_fraction));
  PatchSampling sampling;
  sampling.pairs = wanted + held_out;
  sampling.patch_size = plan.layer.patch_size;
  sampling.subtract_mean = plan.layer.subtract_patch_mean;
  sampling.min_norm = plan.layer.epsilon;
  sampling.seed = seed;
  sampling.stream = stream;
  LayerPlan whitened = plan;
  RowMatrixF& whitening = whitened.layer.whitening;
  // The first pairs decide on the whitening.
  const auto draw = [&]() -> absl::StatusOr<PatchPairs> {
    CKN_ASSIGN_OR_RETURN(PatchPairs pairs, SamplePatchPairs(images, map_of, sampling, pool, progress));
    if (!plan.whiten) return pairs;
    if (whitening.size() == 0) whitening = WhiteningMatrix(pairs.x, plan.whitening_floor, pool);
    WhitenAndNormalise(whitening, pairs.x, pool);
    WhitenAndNormalise(whitening, pairs.y, pool);
    return pairs;
  };
  CKN_ASSIGN_OR_RETURN(PatchPairs pairs, draw());
  PatchPairs held_out_pairs = TakeLast(pairs, held_out);
  if (options.method != LearningMethod::kStochastic) {
    return LearnLayerFromPairs(whitened, std::move(pairs), std::move(held_out_pairs), options, seed, stream, checkpoint,
                               pool, progress);
  }
  CKN_ASSIGN_OR_RETURN(const Start start, Begin(whitened, pairs, options, seed + stream, checkpoint, pool, progress));
  CKN_ASSIGN_OR_RETURN(const double eta, FirstEta(start, pairs, pool));
  whitened.sigma = start.sigma;
  sampling.pairs = options.pairs;
  return LearnStochastically(
      whitened, start.filters, eta,
      [&](std::int64_t block) -> absl::StatusOr<PatchPairs> {
        if (block == 0) return pairs;
        // Streams of the layers of one network and of their blocks must not meet.
        sampling.stream = stream + kBlockStream * static_cast<std::uint64_t>(block);
        return draw();
      },
      std::move(held_out_pairs), options, stream, checkpoint, pool, progress);
}

absl::StatusOr<LearnedLayer> LearnLayerFromPairs(const LayerPlan& plan, PatchPairs pairs, PatchPairs held_out,
                                                 const LearningOptions& options, std::uint64_t seed,
                                                 std::uint64_t stream, const LayerCheckpoint& checkpoint,
                                                 ThreadPool& pool, const Progress& progress) {
  const Layer& shape = plan.layer;
  const int filters = plan.filters;
  const auto start = SteadyClock::now();
  CKN_ASSIGN_OR_RETURN(Start first, Begin(plan, pairs, options, seed + stream, checkpoint, pool, progress));
  const double sigma = first.sigma;
  if (options.method == LearningMethod::kNystrom) {
    return LearnNystromLayer(shape, filters, sigma, pairs, held_out, options, seed + stream, pool, progress);
  }
  RowMatrixF& initial = first.filters;

  RowMatrixF basis;
  if (plan.principal_components > 0) {
    basis = FitPrincipalComponents(pairs.x, plan.principal_components, pool).basis;
    initial = (initial * basis.transpose()).eval();
    BringToNorm(kSubspaceNorm, initial);
    progress.report(absl::StrFormat("filters in the span of %d principal components of %d (%.1f s)", basis.rows(),
                                    basis.cols(), SecondsSince(start)));
  }
  const auto dim = initial.cols();
  const KernelApproximation problem(std::move(pairs), sigma, filters, pool, basis);
  std::vector<double> variables(problem.variable_count());
  Eigen::Map<RowMatrixD>(variables.data(), filters, dim) = initial.cast<double>();
  double eta = 0;  // a restored state replaces the initial point
  if (checkpoint.restored.empty()) {
    CKN_ASSIGN_OR_RETURN(eta, CheckEta(problem.BestConstantEta(initial), sigma));
  }
  std::fill(variables.begin() + initial.size(), variables.end(), eta);
  std::vector<bool> lower_bounded(variables.size(), false);
  std::fill(lower_bounded.begin() + initial.size(), lower_bounded.end(), true);

  LbfgsbOptions solver_options;
  if (basis.size() > 0) solver_options.memory = kSubspaceMemory;
  Lbfgsb solver(std::move(variables), lower_bounded, solver_options);
  v1::LayerLearning learning;
  if (!checkpoint.restored.empty()) {
    // The objective at the start travels in front of the optimiser's own state.
    double objective_start = 0;
    if (checkpoint.restored.size() < sizeof(objective_start)) {
      return absl::DataLossError("state of the optimiser: truncated");
    }
    std::memcpy(&objective_start, checkpoint.restored.data(), sizeof(objective_start));
    learning.set_objective_start(objective_start);
    CKN_RETURN_IF_ERROR(solver.Restore(std::string_view(checkpoint.restored).substr(sizeof(objective_start))));
    progress.report(absl::StrFormat("resumed at iteration %d, objective %.4e", solver.iterations(), solver.value()));
  }
  const auto save = [&] {
    const double objective_start = learning.objective_start();
    std::string state(reinterpret_cast<const char*>(&objective_start), sizeof(objective_start));
    return checkpoint.save(state + solver.Save());
  };

  const auto optimisation_start = SteadyClock::now();
  const int first_iteration = solver.iterations();
  auto reported = optimisation_start;
  auto saved = optimisation_start;
  std::int64_t evaluations = 0;
  std::string stop_reason;
  const auto speed = [&] {
    return problem.FlopsPerEvaluation() * static_cast<double>(evaluations) / SecondsSince(optimisation_start) * 1e-9;
  };
  while (stop_reason.empty()) {
    switch (solver.Step()) {
      case Lbfgsb::Request::kEvaluate:
        solver.SetValue(problem.Evaluate(solver.x(), solver.gradient()));
        if (++evaluations == 1 && checkpoint.restored.empty()) learning.set_objective_start(solver.value());
        break;
      case Lbfgsb::Request::kIteration: {
        const auto now = SteadyClock::now();
        if (options.on_iteration) {
          options.on_iteration(static_cast<int>(stream), solver.iterations(), solver.value());
        }
        if (solver.iterations() >= options.iterations) {
          stop_reason = absl::StrFormat("iteration limit %d", options.iterations);
        }
        if (now - reported >= kReportEvery) {
          reported = now;
          const double left = SecondsSince(optimisation_start) / (solver.iterations() - first_iteration) *
                              (options.iterations - solver.iterations());
          progress.report(absl::StrFormat("L-BFGS-B iteration %d/%d, objective %.4e, %.0f GFLOP/s, at most %.0f s left",
                                          solver.iterations(), options.iterations, solver.value(), speed(), left));
        }
        if (progress.stopped()) {
          CKN_RETURN_IF_ERROR(save());
          return StoppedError();
        }
        if (now - saved >= kSaveEvery) {
          saved = now;
          CKN_RETURN_IF_ERROR(save());
        }
        break;
      }
      case Lbfgsb::Request::kDone:
        stop_reason = solver.Message();
        break;
    }
  }

  LearnedLayer learned{shape, {}};
  learned.layer.learned = true;
  learned.layer.sigma = static_cast<float>(sigma);
  const RowMatrixD solution = problem.Filters(solver.x());
  learned.layer.filters = (basis.size() > 0 ? RowMatrixD(solution * basis.cast<double>()) : solution).cast<float>();
  learned.layer.eta = problem.Eta(solver.x()).cast<float>();

  learning.set_pairs(problem.pair_count());
  if (basis.size() > 0) learning.set_principal_components(static_cast<int>(basis.rows()));
  learning.set_iterations(solver.iterations());
  learning.set_objective(solver.value());
  learning.set_stop_reason(stop_reason);
  learning.set_initialisation(options.init == FilterInit::kKMeans ? "kmeans" : "random");
  const double energy = problem.KernelEnergy();
  const KernelApproximation unseen(std::move(held_out), sigma, filters, pool, basis);
  learning.set_held_out_objective(unseen.Evaluate(solver.x(), {}));
  progress.report(absl::StrFormat(
      "%d iterations (%s), objective %.4e -> %.4e (%.3f %% of the kernel's energy), held-out %.4e, %d of %d eta are 0, "
      "%.0f GFLOP/s (%.1f s)",
      solver.iterations(), stop_reason, learning.objective_start(), learning.objective(),
      100 * learning.objective() / energy, learning.held_out_objective(), (learned.layer.eta.array() == 0).count(),
      filters, speed(), SecondsSince(start)));
  learned.learning = std::move(learning);
  return learned;
}

}  // namespace ckn
