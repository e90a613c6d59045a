#include "server/training/stochastic_learner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/base/status.h"
#include "server/training/kernel_approximation.h"

namespace ckn {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr double kStepSize = 0.01;  // at the start; filters have unit norm, eta is counted in its first value
constexpr double kMeanDecay = 0.9, kSquareDecay = 0.999, kSmall = 1e-12;
constexpr auto kReportEvery = std::chrono::seconds(5);
constexpr auto kSaveEvery = std::chrono::seconds(60);

// Adam's state, [w_1 ... w_p, eta_1 / unit ... eta_p / unit].
struct State {
  std::int64_t step = 0;
  double start = 0;  // the held-out objective in the beginning
  std::vector<double> variables, mean, square;

  [[nodiscard]] std::string Save() const {
    std::string out(reinterpret_cast<const char*>(&step), sizeof(step));
    out.append(reinterpret_cast<const char*>(&start), sizeof(start));
    for (const auto* values : {&variables, &mean, &square}) {
      out.append(reinterpret_cast<const char*>(values->data()), values->size() * sizeof(double));
    }
    return out;
  }

  // The sizes are set already.
  absl::Status Restore(const std::string& in) {
    const std::size_t bytes = variables.size() * sizeof(double);
    if (in.size() != sizeof(step) + sizeof(start) + 3 * bytes) {
      return absl::DataLossError(
          absl::StrFormat("state of the optimiser: got %d bytes, expected %d", in.size(), 16 + 3 * bytes));
    }
    const char* from = in.data();
    const auto take = [&from](void* to, std::size_t count) {
      std::memcpy(to, from, count);
      from += count;
    };
    take(&step, sizeof(step));
    take(&start, sizeof(start));
    for (auto* values : {&variables, &mean, &square}) take(values->data(), bytes);
    return absl::OkStatus();
  }
};

PatchPairs Batch(const PatchPairs& pairs, Eigen::Index first) {
  return {pairs.x.middleRows(first, kStochasticBatch), pairs.y.middleRows(first, kStochasticBatch)};
}

}  // namespace

absl::StatusOr<LearnedLayer> LearnStochastically(const LayerPlan& plan, const RowMatrixF& initial, double eta,
                                                 const PairStream& stream, PatchPairs held_out,
                                                 const LearningOptions& options, std::uint64_t layer,
                                                 const LayerCheckpoint& checkpoint, ThreadPool& pool,
                                                 const Progress& progress) {
  const int filters = plan.filters;
  const Eigen::Index weights = initial.size();
  const auto size = static_cast<std::size_t>(weights + filters);
  State state;
  state.variables.resize(size);
  state.mean.resize(size);
  state.square.resize(size);
  Eigen::Map<RowMatrixD>(state.variables.data(), filters, initial.cols()) = initial.cast<double>();
  std::fill(state.variables.begin() + weights, state.variables.end(), 1.0);

  const KernelApproximation unseen(std::move(held_out), plan.sigma, filters, pool);
  // The variables of problem (4): eta in its own unit.
  const auto problem_variables = [&] {
    std::vector<double> variables = state.variables;
    for (auto value = variables.begin() + weights; value != variables.end(); ++value) *value *= eta;
    return variables;
  };
  if (checkpoint.restored.empty()) {
    state.start = unseen.Evaluate(problem_variables(), {});
  } else {
    CKN_RETURN_IF_ERROR(state.Restore(checkpoint.restored));
    const bool finite = std::ranges::all_of(state.variables, [](double value) { return std::isfinite(value); });
    if (state.step < 0 || state.step > options.iterations || !finite) {
      return absl::DataLossError(absl::StrFormat("state of the optimiser: step %d of %d%s", state.step,
                                                 options.iterations, finite ? "" : ", variables are not finite"));
    }
    progress.report(absl::StrFormat("resumed at step %d", state.step));
  }

  const auto start = SteadyClock::now();
  auto reported = start, saved = start;
  PatchPairs pairs;
  std::int64_t block = -1;
  std::vector<double> gradient(size);
  const std::int64_t first_step = state.step;
  double flops = 0;
  while (state.step < options.iterations) {
    // Where in the stream a step stands depends on its number alone, so that a resumed run sees the same pairs. All
    // blocks have the size of the first one.
    const std::int64_t per_block = std::max<std::int64_t>(1, options.pairs / kStochasticBatch);
    if (block != state.step / per_block) {
      block = state.step / per_block;
      absl::StatusOr<PatchPairs> next = stream(block);
      if (absl::IsCancelled(next.status())) CKN_RETURN_IF_ERROR(checkpoint.save(state.Save()));
      CKN_ASSIGN_OR_RETURN(pairs, std::move(next));
      if (pairs.size() < kStochasticBatch) {
        return absl::FailedPreconditionError(
            absl::StrFormat("pairs of patches: got %d, expected at least %d", pairs.size(), kStochasticBatch));
      }
    }
    const Eigen::Index batches = pairs.size() / kStochasticBatch;
    const KernelApproximation problem(Batch(pairs, state.step % per_block % batches * kStochasticBatch), plan.sigma,
                                      filters, pool);
    const double value = problem.Evaluate(problem_variables(), gradient);
    flops += problem.FlopsPerEvaluation();
    for (auto slope = gradient.begin() + weights; slope != gradient.end(); ++slope) *slope *= eta;

    ++state.step;
    const double part_done = static_cast<double>(state.step - 1) / options.iterations;
    const double step_size = kStepSize * 0.5 * (1 + std::cos(std::numbers::pi * part_done));
    const double mean_scale = 1 / (1 - std::pow(kMeanDecay, static_cast<double>(state.step)));
    const double square_scale = 1 / (1 - std::pow(kSquareDecay, static_cast<double>(state.step)));
    for (std::size_t i = 0; i < size; ++i) {
      state.mean[i] = kMeanDecay * state.mean[i] + (1 - kMeanDecay) * gradient[i];
      state.square[i] = kSquareDecay * state.square[i] + (1 - kSquareDecay) * gradient[i] * gradient[i];
      state.variables[i] -=
          step_size * mean_scale * state.mean[i] / (std::sqrt(square_scale * state.square[i]) + kSmall);
    }
    for (auto value_of_eta = state.variables.begin() + weights; value_of_eta != state.variables.end(); ++value_of_eta) {
      *value_of_eta = std::max(*value_of_eta, 0.0);
    }
    if (options.on_iteration) options.on_iteration(static_cast<int>(layer), static_cast<int>(state.step), value);

    const auto now = SteadyClock::now();
    const double seconds = std::chrono::duration<double>(now - start).count();
    if (now - reported >= kReportEvery) {
      reported = now;
      progress.report(absl::StrFormat("step %d/%d, objective of the batch %.4e, %.0f GFLOP/s, about %.0f s left",
                                      state.step, options.iterations, value, flops / seconds * 1e-9,
                                      seconds / static_cast<double>(state.step - first_step) *
                                          static_cast<double>(options.iterations - state.step)));
    }
    if (progress.stopped() || now - saved >= kSaveEvery) {
      saved = now;
      CKN_RETURN_IF_ERROR(checkpoint.save(state.Save()));
      if (progress.stopped()) return StoppedError();
    }
  }

  LearnedLayer learned{plan.layer, {}};
  const std::vector<double> solution = problem_variables();
  learned.layer.learned = true;
  learned.layer.sigma = static_cast<float>(plan.sigma);
  learned.layer.filters = Eigen::Map<const RowMatrixD>(solution.data(), filters, initial.cols()).cast<float>();
  learned.layer.eta = Eigen::Map<const Eigen::VectorXd>(solution.data() + weights, filters).cast<float>();
  v1::LayerLearning& learning = learned.learning;
  learning.set_pairs(state.step * kStochasticBatch);
  learning.set_iterations(static_cast<int>(state.step));
  learning.set_objective_start(state.start);
  learning.set_objective(unseen.Evaluate(solution, {}));
  learning.set_held_out_objective(learning.objective());
  learning.set_stop_reason(absl::StrFormat("%d stochastic steps", state.step));
  learning.set_initialisation(options.init == FilterInit::kKMeans ? "kmeans" : "random");
  progress.report(absl::StrFormat(
      "%d steps of %d fresh pairs, held-out objective %.4e -> %.4e, %d of %d eta are 0 (%.1f s)", state.step,
      kStochasticBatch, learning.objective_start(), learning.objective(), (learned.layer.eta.array() == 0).count(),
      filters, std::chrono::duration<double>(SteadyClock::now() - start).count()));
  return learned;
}

}  // namespace ckn
