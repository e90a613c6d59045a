#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/training/progress.h"

namespace ckn {

// Lloyd's algorithm from random distinct points; an empty cluster restarts at the point farthest from its centroid.
// points [n][dim], n >= clusters; returns centroids [clusters][dim]. The result does not depend on the thread count.
// kSpherical: points are of unit norm, and centroids are brought to unit norm after each iteration.
enum class Centroids { kMeans, kSpherical };
absl::StatusOr<RowMatrixF> KMeans(const Eigen::Ref<const RowMatrixF>& points, int clusters, int iterations,
                                  Centroids kind, std::uint64_t seed, ThreadPool& pool, const Progress& progress);

}  // namespace ckn
