#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/thread_pool.h"
#include "server/ckn/layer.h"
#include "server/training/dataset.h"
#include "server/training/layer_learner.h"
#include "server/training/progress.h"
#include "server/training/recipe.h"

namespace ckn {

// The layers of a network, [N], without a classifier.
struct LearnedNetwork {
  std::vector<Layer> layers;
  std::vector<v1::LayerLearning> learning;  // how each was learned; empty for fixed ones
};

// Where the work is kept while it is going on.
struct NetworkCheckpoint {
  std::string path;     // empty: nowhere
  std::string key;      // names all that the layers depend on; a file with another key is refused
  bool resume = false;  // continue from `path` if it is there
};

// Layers from the bottom up by Algorithm 1, on the images `rows` of the data; `plan` is resolved for their size.
// CANCELLED when progress says stop, the state is saved first.
absl::StatusOr<LearnedNetwork> LearnNetwork(const NetworkPlan& plan, const Dataset& data,
                                            std::span<const std::size_t> rows, const LearningOptions& options,
                                            std::uint64_t seed, const NetworkCheckpoint& checkpoint, ThreadPool& pool,
                                            const Progress& progress);

}  // namespace ckn
