#include "server/training/whitening.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <vector>

#include "server/simd/gemm.h"

namespace ckn {

RowMatrixF WhiteningMatrix(const Eigen::Ref<const RowMatrixF>& patches, double floor, ThreadPool& pool) {
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
  const Eigen::SelfAdjointEigenSolver<RowMatrixD> eigen(covariance);
  const double added = floor * eigen.eigenvalues().maxCoeff();
  const Eigen::VectorXd scale = (eigen.eigenvalues().array().max(0) + added).sqrt().inverse();
  return (eigen.eigenvectors() * scale.asDiagonal() * eigen.eigenvectors().transpose()).cast<float>();
}

void WhitenAndNormalise(const RowMatrixF& whitening, RowMatrixF& patches, ThreadPool& pool) {
  constexpr Eigen::Index kRows = 1024;
  const Eigen::Index dim = patches.cols();
  pool.ParallelFor(static_cast<std::size_t>((patches.rows() + kRows - 1) / kRows), [&](std::size_t i, int) {
    const Eigen::Index first = static_cast<Eigen::Index>(i) * kRows;
    auto rows = patches.middleRows(first, std::min(kRows, patches.rows() - first));
    const RowMatrixF raw = rows;
    Gemm(Op::kNone, Op::kNone, raw.rows(), dim, dim, 1, raw.data(), dim, whitening.data(), dim, 0, rows.data(), dim);
    rows.rowwise().normalize();
  });
}

}  // namespace ckn
