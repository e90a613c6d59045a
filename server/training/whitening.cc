#include "server/training/whitening.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <utility>
#include <vector>

#include "server/simd/gemm.h"

namespace ckn {

namespace {

// Mean of x x^T over the rows x, decomposed.
Eigen::SelfAdjointEigenSolver<RowMatrixD> DecomposeCovariance(const Eigen::Ref<const RowMatrixF>& patches,
                                                              ThreadPool& pool) {
  constexpr Eigen::Index kRows = 4096;
  const Eigen::Index dim = patches.cols();
  std::vector<RowMatrixF> partial(static_cast<std::size_t>((patches.rows() + kRows - 1) / kRows));
  pool.ParallelFor(partial.size(), [&](std::size_t i, int) {
    const Eigen::Index first = static_cast<Eigen::Index>(i) * kRows;
    partial[i].resize(dim, dim);
    Gemm(Op::kTranspose, Op::kNone, dim, dim, std::min(kRows, patches.rows() - first), 1, patches.row(first).data(),
         dim, patches.row(first).data(), dim, 0, partial[i].data(), dim);
  });
  RowMatrixD covariance = RowMatrixD::Zero(dim, dim);
  for (const RowMatrixF& sum : partial) covariance += sum.cast<double>();
  covariance /= static_cast<double>(patches.rows());
  return Eigen::SelfAdjointEigenSolver<RowMatrixD>(covariance);
}

}  // namespace

RowMatrixF WhiteningMatrix(const Eigen::Ref<const RowMatrixF>& patches, double floor, ThreadPool& pool) {
  const Eigen::SelfAdjointEigenSolver<RowMatrixD> eigen = DecomposeCovariance(patches, pool);
  const double added = floor * eigen.eigenvalues().maxCoeff();
  const Eigen::VectorXd scale = (eigen.eigenvalues().array().max(0) + added).sqrt().inverse();
  return (eigen.eigenvectors() * scale.asDiagonal() * eigen.eigenvectors().transpose()).cast<float>();
}

PrincipalComponents FitPrincipalComponents(const Eigen::Ref<const RowMatrixF>& patches, Eigen::Index components,
                                           ThreadPool& pool) {
  // Below this part of the largest variance there is only rounding.
  constexpr double kLeastVariance = 1e-7;
  const Eigen::SelfAdjointEigenSolver<RowMatrixD> eigen = DecomposeCovariance(patches, pool);
  const Eigen::VectorXd variances = eigen.eigenvalues().reverse();
  Eigen::Index kept = 0;
  while (kept < std::min(components, variances.size()) && variances[kept] > kLeastVariance * variances[0]) ++kept;
  const RowMatrixD basis = eigen.eigenvectors().rowwise().reverse().leftCols(kept).transpose();
  const Eigen::VectorXd scale = variances.head(kept).array().sqrt().inverse();
  return {basis.cast<float>(), (basis.transpose() * scale.asDiagonal()).cast<float>()};
}

void WhitenAndNormalise(const RowMatrixF& whitening, RowMatrixF& patches, ThreadPool& pool) {
  constexpr Eigen::Index kRows = 1024;
  const Eigen::Index dim = patches.cols();
  const Eigen::Index out_dim = whitening.cols();
  RowMatrixF narrower;  // in place where the size stays
  if (out_dim != dim) narrower.resize(patches.rows(), out_dim);
  RowMatrixF& out = out_dim != dim ? narrower : patches;
  pool.ParallelFor(static_cast<std::size_t>((patches.rows() + kRows - 1) / kRows), [&](std::size_t i, int) {
    const Eigen::Index first = static_cast<Eigen::Index>(i) * kRows;
    const RowMatrixF raw = patches.middleRows(first, std::min(kRows, patches.rows() - first));
    auto rows = out.middleRows(first, raw.rows());
    Gemm(Op::kNone, Op::kNone, raw.rows(), out_dim, dim, 1, raw.data(), dim, whitening.data(), out_dim, 0, rows.data(),
         out_dim);
    rows.rowwise().normalize();
  });
  if (out_dim != dim) patches = std::move(narrower);
}

}  // namespace ckn
