#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/training/layer_learner.h"
#include "server/training/patch_pairs.h"
#include "server/training/progress.h"

// The Nystrom approximation of a layer's kernel, without an optimiser: Mairal, "End-to-End Kernel Learning with
// Supervised Convolutional Kernel Networks", NIPS 2016, arXiv:1605.06265, section 3. With Z the filters, of unit norm,
// and kappa(u) = exp((u - 1) / sigma^2), which is exp(-||x - z||^2 / (2 sigma^2)) for unit x and z, a patch x becomes
//   psi(x) = ||x|| kappa(Z^T Z)^(-1/2) kappa(Z^T x / ||x||).
namespace ckn {

// kappa(Z^T Z)^(-1/2) for filters [p][dim] of unit norm: [p][p], symmetric. Eigenvalues count as at least 1e-6: filters
// that are nearly equal must not blow up.
RowMatrixF NystromProjection(const RowMatrixF& filters, double sigma);

// Mean over the pairs of (kernel - psi(x) . psi(y))^2: comparable with the objective of problem (4).
double NystromError(const Eigen::Ref<const RowMatrixF>& x, const Eigen::Ref<const RowMatrixF>& y,
                    const RowMatrixF& filters, const RowMatrixF& projection, double sigma, ThreadPool& pool);

// A layer whose filters are the centroids of spherical k-means on the patches; sigma is that of the kernel. `shape` as
// for LearnLayer.
absl::StatusOr<LearnedLayer> LearnNystromLayer(const Layer& shape, int filters, double sigma, const PatchPairs& pairs,
                                               const PatchPairs& held_out, const LearningOptions& options,
                                               std::uint64_t seed, ThreadPool& pool, const Progress& progress);

}  // namespace ckn
