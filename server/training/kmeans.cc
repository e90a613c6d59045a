#include "server/training/kmeans.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/simd/gemm.h"
#include "server/training/random.h"

namespace ckn {
namespace {

constexpr Eigen::Index kBlockRows = 1024;
constexpr std::uint64_t kKMeansStream = 2'000'000;

struct Partial {
  RowMatrixF sums;                   // [clusters][dim]
  std::vector<std::int64_t> counts;  // [clusters]
  Eigen::Index farthest = 0;
  float farthest_distance = -1;
};

}  // namespace

absl::StatusOr<RowMatrixF> KMeans(const Eigen::Ref<const RowMatrixF>& points, int clusters, int iterations,
                                  Centroids kind, std::uint64_t seed, ThreadPool& pool, const Progress& progress) {
  const Eigen::Index n = points.rows();
  const Eigen::Index dim = points.cols();
  if (n < clusters) {
    return absl::FailedPreconditionError(
        absl::StrFormat("k-means: got %d points, expected at least the number of filters, %d", n, clusters));
  }
  std::vector<Eigen::Index> order(n);
  std::iota(order.begin(), order.end(), Eigen::Index{0});
  Rng rng = MakeRng(seed, kKMeansStream);
  Shuffle(rng, order);
  RowMatrixF centroids(clusters, dim);
  for (int c = 0; c < clusters; ++c) centroids.row(c) = points.row(order[c]);

  // A fixed number of partial sums, added in order: the same bits for every number of threads.
  const std::size_t chunks = std::min<std::size_t>(16, (n + kBlockRows - 1) / kBlockRows);
  const Eigen::Index chunk_rows = (n + static_cast<Eigen::Index>(chunks) - 1) / static_cast<Eigen::Index>(chunks);
  std::vector<Partial> partials(chunks);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    if (progress.stopped()) return StoppedError();
    const Eigen::VectorXf half_norms = 0.5F * centroids.rowwise().squaredNorm();
    pool.ParallelFor(chunks, [&](std::size_t chunk, int) {
      Partial& partial = partials[chunk];
      partial.sums.setZero(clusters, dim);
      partial.counts.assign(clusters, 0);
      partial.farthest_distance = -1;
      RowMatrixF products(kBlockRows, clusters);
      const Eigen::Index end = std::min(n, static_cast<Eigen::Index>(chunk + 1) * chunk_rows);
      for (Eigen::Index begin = static_cast<Eigen::Index>(chunk) * chunk_rows; begin < end; begin += kBlockRows) {
        const Eigen::Index rows = std::min(kBlockRows, end - begin);
        Gemm(Op::kNone, Op::kTranspose, rows, clusters, dim, 1, points.row(begin).data(), points.outerStride(),
             centroids.data(), dim, 0, products.data(), clusters);
        for (Eigen::Index i = 0; i < rows; ++i) {
          // argmin ||x - c||^2 = argmax x.c - ||c||^2 / 2
          Eigen::Index nearest = 0;
          const float best = (products.row(i) - half_norms.transpose()).maxCoeff(&nearest);
          const auto point = points.row(begin + i);
          partial.sums.row(nearest) += point;
          ++partial.counts[nearest];
          const float distance = point.squaredNorm() - 2 * best;
          if (distance > partial.farthest_distance) {
            partial.farthest_distance = distance;
            partial.farthest = begin + i;
          }
        }
      }
    });
    RowMatrixF sums = std::move(partials[0].sums);
    std::vector<std::int64_t> counts = std::move(partials[0].counts);
    for (std::size_t chunk = 1; chunk < chunks; ++chunk) {
      sums += partials[chunk].sums;
      for (int c = 0; c < clusters; ++c) counts[c] += partials[chunk].counts[c];
    }
    std::sort(partials.begin(), partials.end(),
              [](const Partial& a, const Partial& b) { return a.farthest_distance > b.farthest_distance; });
    std::size_t reseeded = 0;
    for (int c = 0; c < clusters; ++c) {
      if (counts[c] > 0) {
        centroids.row(c) = sums.row(c) / static_cast<float>(counts[c]);
      } else {
        // Each chunk offers one far point; when they run out, a random one will do.
        const Eigen::Index point =
            reseeded < chunks ? partials[reseeded].farthest : static_cast<Eigen::Index>(UniformIndex(rng, n));
        ++reseeded;
        centroids.row(c) = points.row(point);
      }
    }
    if (kind == Centroids::kSpherical) {
      // A sum of opposite points has no direction; it stays and is an empty cluster's concern in the next iteration.
      for (int c = 0; c < clusters; ++c) {
        if (const float norm = centroids.row(c).norm(); norm > 0) centroids.row(c) /= norm;
      }
    }
  }
  return centroids;
}

}  // namespace ckn
