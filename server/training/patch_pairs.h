#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "server/base/feature_map.h"
#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/training/progress.h"

namespace ckn {

// n pairs (x_i, y_i) of l2-normalised patches: step 1 of Algorithm 1.
struct PatchPairs {
  RowMatrixF x;  // [n][patch_size^2 * channels], unit rows
  RowMatrixF y;  // same shape

  [[nodiscard]] Eigen::Index size() const { return x.rows(); }
};

struct PatchSampling {
  std::int64_t pairs = 0;
  int patch_size = 1;
  bool subtract_mean = false;
  float min_norm = 1e-5F;  // patches up to this norm carry no direction and are drawn again
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  // tells the layers of one network apart
};

// Draws patches from `images` maps, about equally many from each, at uniform positions, and pairs them at random.
// map_of(i, worker) computes the map of image i; it is called once an image, from the pool's threads.
// The result depends on the seed, not on the number of threads. FAILED_PRECONDITION when the maps hold too few patches
// above min_norm.
absl::StatusOr<PatchPairs> SamplePatchPairs(std::size_t images,
                                            const std::function<FeatureMap(std::size_t i, int worker)>& map_of,
                                            const PatchSampling& sampling, ThreadPool& pool, const Progress& progress);

// The q-quantile of ||x_i - y_i||_2, q in (0, 1): step 2 of Algorithm 1.
double DistanceQuantile(const PatchPairs& pairs, double q);

}  // namespace ckn
