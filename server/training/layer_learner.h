#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "ckn/v1/model.pb.h"
#include "server/base/thread_pool.h"
#include "server/ckn/layer.h"
#include "server/training/layer_plan.h"
#include "server/training/patch_pairs.h"
#include "server/training/progress.h"

namespace ckn {

// kProblem4: problem (4) of the paper by L-BFGS-B. kStochastic: problem (4) by stochastic gradients on a stream of
// pairs, see stochastic_learner.h. kNystrom: see nystrom.h; iterations and init do not matter then.
enum class LearningMethod { kProblem4, kStochastic, kNystrom };
enum class FilterInit { kKMeans, kRandom };

struct LearningOptions {
  LearningMethod method = LearningMethod::kProblem4;
  std::int64_t pairs = 300'000;  // n of problem (4); of a stream, drawn at a time
  int iterations = 1'000;        // at most, of L-BFGS-B; or stochastic steps
  FilterInit init = FilterInit::kKMeans;
  int kmeans_iterations = 30;
  std::int64_t kmeans_points = 100'000;  // at most
  double held_out_fraction = 0.1;        // of `pairs`, drawn in addition, to report the objective on
  // Told the objective after each iteration of L-BFGS-B; layers count from 1.
  std::function<void(int layer, int iteration, double objective)> on_iteration = nullptr;
};

// Where a learner keeps its state between iterations. Called from the learning thread.
struct LayerCheckpoint {
  std::string restored;  // state to continue from; empty: start anew
  // Stores a state; called now and then and before a stop.
  std::function<absl::Status(const std::string& state)> save = [](const std::string&) { return absl::OkStatus(); };
};

struct LearnedLayer {
  Layer layer;
  v1::LayerLearning learning;
};

// Algorithm 1 for one layer. map_of(i, worker) is the map below of training image i. CANCELLED when progress says stop
// (the state is saved first).
absl::StatusOr<LearnedLayer> LearnLayer(const LayerPlan& plan, std::size_t images,
                                        const std::function<FeatureMap(std::size_t i, int worker)>& map_of,
                                        const LearningOptions& options, std::uint64_t seed, std::uint64_t stream,
                                        const LayerCheckpoint& checkpoint, ThreadPool& pool, const Progress& progress);

// The same from pairs of patches that are drawn, and whitened, already; those of `held_out` serve to report the
// objective on.
absl::StatusOr<LearnedLayer> LearnLayerFromPairs(const LayerPlan& plan, PatchPairs pairs, PatchPairs held_out,
                                                 const LearningOptions& options, std::uint64_t seed,
                                                 std::uint64_t stream, const LayerCheckpoint& checkpoint,
                                                 ThreadPool& pool, const Progress& progress);

// The fixed first layer of a gradient map: `orientations` unit vectors (cos theta, sin theta), theta = 2 pi l / p,
// sigma = 2 pi / p, eta = 1 (a common factor cancels in the next layer's normalisation and in standardisation).
Layer OrientationLayer(int orientations);

}  // namespace ckn
