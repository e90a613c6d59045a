#include "server/training/nystrom.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/base/status.h"
#include "server/simd/exp.h"
#include "server/simd/gemm.h"
#include "server/training/kmeans.h"

namespace ckn {
namespace {

constexpr double kMinEigenvalue = 1e-6;

}  // namespace

RowMatrixF NystromProjection(const RowMatrixF& filters, double sigma) {
  const RowMatrixD z = filters.cast<double>();
  const RowMatrixD gram = z * z.transpose();
  const RowMatrixD kernel = ((gram.array() - 1) / (sigma * sigma)).exp();
  const Eigen::SelfAdjointEigenSolver<RowMatrixD> eigen(kernel);
  const Eigen::VectorXd scale = eigen.eigenvalues().cwiseMax(kMinEigenvalue).cwiseSqrt().cwiseInverse();
  return (eigen.eigenvectors() * scale.asDiagonal() * eigen.eigenvectors().transpose()).cast<float>();
}

double NystromError(const Eigen::Ref<const RowMatrixF>& x, const Eigen::Ref<const RowMatrixF>& y,
                    const RowMatrixF& filters, const RowMatrixF& projection, double sigma, ThreadPool& pool) {
  constexpr Eigen::Index kRows = 512;
  const Eigen::Index n = x.rows();
  const Eigen::Index p = filters.rows();
  const auto inverse = static_cast<float>(1 / (sigma * sigma));
  const std::vector<float> bias(static_cast<std::size_t>(p), -inverse);
  std::vector<double> sums(static_cast<std::size_t>((n + kRows - 1) / kRows));
  pool.ParallelFor(sums.size(), [&](std::size_t block, int) {
    const Eigen::Index first = static_cast<Eigen::Index>(block) * kRows;
    const Eigen::Index rows = std::min(kRows, n - first);
    const auto psi = [&](const Eigen::Ref<const RowMatrixF>& patches) {
      RowMatrixF kappa(rows, p), mapped(rows, p);
      Gemm(Op::kNone, Op::kTranspose, rows, p, filters.cols(), 1, patches.row(first).data(), patches.outerStride(),
           filters.data(), filters.cols(), 0, kappa.data(), p);
      for (Eigen::Index i = 0; i < rows; ++i) {
        ExpAffine(inverse, bias.data(), 1, kappa.row(i).data(), static_cast<std::size_t>(p));
      }
      Gemm(Op::kNone, Op::kNone, rows, p, p, 1, kappa.data(), p, projection.data(), p, 0, mapped.data(), p);
      return mapped;
    };
    const RowMatrixF a = psi(x);
    const RowMatrixF b = psi(y);
    for (Eigen::Index i = 0; i < rows; ++i) {
      const double distance = (x.row(first + i) - y.row(first + i)).cast<double>().squaredNorm();
      const double error = std::exp(-distance / (2 * sigma * sigma)) - static_cast<double>(a.row(i).dot(b.row(i)));
      sums[block] += error * error;
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(n);
}

absl::StatusOr<LearnedLayer> LearnNystromLayer(const Layer& shape, int filters, double sigma, const PatchPairs& pairs,
                                               const PatchPairs& held_out, const LearningOptions& options,
                                               std::uint64_t seed, ThreadPool& pool, const Progress& progress) {
  LearnedLayer learned{shape, {}};
  Layer& layer = learned.layer;
  const Eigen::Index points = std::min<Eigen::Index>(pairs.size(), options.kmeans_points);
  CKN_ASSIGN_OR_RETURN(layer.filters, KMeans(pairs.x.topRows(points), filters, options.kmeans_iterations,
                                             Centroids::kSpherical, seed, pool, progress));
  layer.projection = NystromProjection(layer.filters, sigma);
  // The activation is exp(-||x - z||^2 / layer.sigma^2).
  layer.sigma = static_cast<float>(std::numbers::sqrt2 * sigma);
  layer.eta = Eigen::VectorXf::Ones(filters);
  layer.learned = true;

  v1::LayerLearning& learning = learned.learning;
  const Eigen::Index sample = std::min(pairs.size(), held_out.size());
  learning.set_pairs(pairs.size());
  learning.set_objective(
      NystromError(pairs.x.topRows(sample), pairs.y.topRows(sample), layer.filters, layer.projection, sigma, pool));
  learning.set_objective_start(learning.objective());
  learning.set_held_out_objective(NystromError(held_out.x, held_out.y, layer.filters, layer.projection, sigma, pool));
  learning.set_initialisation("spherical kmeans");
  learning.set_stop_reason("Nystrom projection, nothing to optimise");
  progress.report(absl::StrFormat("Nystrom projection of %d filters, kernel error %.4e, held-out %.4e", filters,
                                  learning.objective(), learning.held_out_objective()));
  return learned;
}

}  // namespace ckn
