#include "server/training/cholesky.h"

#include <Eigen/Cholesky>
#include <algorithm>

#include "server/simd/gemm.h"

namespace ckn {
namespace {

constexpr Eigen::Index kBlock = 192;

}  // namespace

bool CholeskyInPlace(RowMatrixF& a) {
  const Eigen::Index n = a.rows();
  for (Eigen::Index k = 0; k < n; k += kBlock) {
    const Eigen::Index size = std::min(kBlock, n - k);
    const Eigen::Index rest = n - k - size;
    auto diagonal = a.block(k, k, size, size);
    Eigen::LLT<Eigen::Ref<RowMatrixF>, Eigen::Lower> factor(diagonal);
    if (factor.info() != Eigen::Success) return false;
    if (rest == 0) break;
    auto panel = a.block(k + size, k, rest, size);
    diagonal.triangularView<Eigen::Lower>().transpose().solveInPlace<Eigen::OnTheRight>(panel);
    // a22 -= panel panel^T, lower triangle only, by block rows.
    for (Eigen::Index i = 0; i < rest; i += kBlock) {
      const Eigen::Index rows = std::min(kBlock, rest - i);
      const Eigen::Index cols = i + rows;
      Gemm(Op::kNone, Op::kTranspose, rows, cols, size, -1, &a(k + size + i, k), n, &a(k + size, k), n, 1,
           &a(k + size + i, k + size), n);
    }
  }
  return true;
}

void CholeskySolve(const RowMatrixF& lower, Eigen::VectorXf& b) {
  lower.triangularView<Eigen::Lower>().solveInPlace(b);
  lower.triangularView<Eigen::Lower>().transpose().solveInPlace(b);
}

void AddGram(const float* rows, Eigen::Index count, Eigen::Index stride, float alpha, RowMatrixF& gram) {
  const Eigen::Index d = gram.rows();
  for (Eigen::Index i = 0; i < d; i += kBlock) {
    const Eigen::Index size = std::min(kBlock, d - i);
    Gemm(Op::kTranspose, Op::kNone, size, i + size, count, alpha, rows + i, stride, rows, stride, 1, &gram(i, 0), d);
  }
}

}  // namespace ckn
