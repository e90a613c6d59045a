#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/training/layer_learner.h"
#include "server/training/layer_plan.h"
#include "server/training/patch_pairs.h"
#include "server/training/progress.h"

// Problem (4) by stochastic gradients, on pairs that are drawn as the work goes on: what the paper's section 3.1 names
// as the way to more data than fit into memory.
namespace ckn {

// Pairs of one step.
inline constexpr int kStochasticBatch = 2048;

// The next pairs of the stream, block 0 first; at least kStochasticBatch.
using PairStream = std::function<absl::StatusOr<PatchPairs>(std::int64_t block)>;

// options.iterations steps of Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015), each on a
// batch of pairs not seen before, with a step size that falls to 0; eta is kept >= 0. `plan.sigma` is set; `initial`
// [filters][dim], all with the same `eta`. The objectives of the result are those on `held_out`, before and after.
// CANCELLED when progress says stop; `checkpoint` then has the state.
absl::StatusOr<LearnedLayer> LearnStochastically(const LayerPlan& plan, const RowMatrixF& initial, double eta,
                                                 const PairStream& stream, PatchPairs held_out,
                                                 const LearningOptions& options, std::uint64_t layer,
                                                 const LayerCheckpoint& checkpoint, ThreadPool& pool,
                                                 const Progress& progress);

}  // namespace ckn
