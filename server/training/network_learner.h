#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "server/base/thread_pool.h"
#include "server/store/model.h"
#include "server/training/checkpoint.h"
#include "server/training/dataset.h"
#include "server/training/layer_learner.h"
#include "server/training/progress.h"
#include "server/training/recipe.h"

namespace ckn {

// Layers from the bottom up by Algorithm 1, on the images `rows` of the data; `plan` is resolved for their size. The
// result has no standardisation yet. Layers that the journal has finished are taken from it, the others added.
// CANCELLED when progress says stop; the journal has the state.
absl::StatusOr<Network> LearnNetwork(const NetworkPlan& plan, const Dataset& data, std::span<const std::size_t> rows,
                                     const LearningOptions& options, std::uint64_t seed, LayerJournal& journal,
                                     ThreadPool& pool, const Progress& progress);

}  // namespace ckn
