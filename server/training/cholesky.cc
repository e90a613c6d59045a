#include "server/training/cholesky.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <functional>

#include "server/simd/gemm.h"

namespace ckn {
namespace {

constexpr Eigen::Index kBlock = 192;

// body(first, size) for blocks of [0, count), the last one first: in a lower triangle that is the longest, and the
// threads end together.
void ForBlocks(Eigen::Index count, Eigen::Index block_size, ThreadPool* pool,
               const std::function<void(Eigen::Index first, Eigen::Index size)>& body) {
  const Eigen::Index blocks = (count + block_size - 1) / block_size;
  const auto run = [&](std::size_t i, int) {
    const Eigen::Index first = (blocks - 1 - static_cast<Eigen::Index>(i)) * block_size;
    body(first, std::min(block_size, count - first));
  };
  if (pool != nullptr) {
    pool->ParallelFor(static_cast<std::size_t>(blocks), run);
  } else {
    for (Eigen::Index i = 0; i < blocks; ++i) run(static_cast<std::size_t>(i), 0);
  }
}

}  // namespace

bool CholeskyInPlace(RowMatrixF& a, ThreadPool* pool) {
  const Eigen::Index n = a.rows();
  for (Eigen::Index k = 0; k < n; k += kBlock) {
    const Eigen::Index size = std::min(kBlock, n - k);
    const Eigen::Index below = k + size;
    auto diagonal = a.block(k, k, size, size);
    Eigen::LLT<Eigen::Ref<RowMatrixF>, Eigen::Lower> factor(diagonal);
    if (factor.info() != Eigen::Success) return false;
    ForBlocks(n - below, kBlock, pool, [&](Eigen::Index first, Eigen::Index rows) {
      auto panel = a.block(below + first, k, rows, size);
      diagonal.triangularView<Eigen::Lower>().transpose().solveInPlace<Eigen::OnTheRight>(panel);
    });
    // a22 -= panel panel^T, lower triangle only, by block rows.
    ForBlocks(n - below, kBlock, pool, [&](Eigen::Index first, Eigen::Index rows) {
      Gemm(Op::kNone, Op::kTranspose, rows, first + rows, size, -1, &a(below + first, k), n, &a(below, k), n, 1,
           &a(below + first, below), n);
    });
  }
  return true;
}

void CholeskySolve(const RowMatrixF& lower, Eigen::VectorXf& b) {
  lower.triangularView<Eigen::Lower>().solveInPlace(b);
  lower.triangularView<Eigen::Lower>().transpose().solveInPlace(b);
}

void CholeskySolve(const RowMatrixF& lower, RowMatrixF& b, ThreadPool& pool) {
  constexpr Eigen::Index kRows = 8 * kBlock;  // work that is large against handing it to a thread
  const Eigen::Index n = lower.rows();
  const Eigen::Index m = b.cols();
  // L y = b, then L^T x = y. Each block of rows, once solved, is taken out of all that come later.
  for (Eigen::Index k = 0; k < n; k += kBlock) {
    const Eigen::Index size = std::min(kBlock, n - k);
    const Eigen::Index below = k + size;
    auto block = b.middleRows(k, size);
    lower.block(k, k, size, size).triangularView<Eigen::Lower>().solveInPlace(block);
    ForBlocks(n - below, kRows, &pool, [&](Eigen::Index first, Eigen::Index rows) {
      Gemm(Op::kNone, Op::kNone, rows, m, size, -1, &lower(below + first, k), n, &b(k, 0), m, 1, &b(below + first, 0),
           m);
    });
  }
  for (Eigen::Index k = (n - 1) / kBlock * kBlock; k >= 0; k -= kBlock) {
    const Eigen::Index size = std::min(kBlock, n - k);
    auto block = b.middleRows(k, size);
    lower.block(k, k, size, size).triangularView<Eigen::Lower>().transpose().solveInPlace(block);
    ForBlocks(k, kRows, &pool, [&](Eigen::Index first, Eigen::Index rows) {
      Gemm(Op::kTranspose, Op::kNone, rows, m, size, -1, &lower(k, first), n, &b(k, 0), m, 1, &b(first, 0), m);
    });
  }
}

void AddGram(const float* rows, Eigen::Index count, Eigen::Index stride, float alpha, RowMatrixF& gram) {
  const Eigen::Index d = gram.rows();
  for (Eigen::Index i = 0; i < d; i += kBlock) {
    const Eigen::Index size = std::min(kBlock, d - i);
    Gemm(Op::kTranspose, Op::kNone, size, i + size, count, alpha, rows + i, stride, rows, stride, 1, &gram(i, 0), d);
  }
}

RowMatrixF Kernel(const Eigen::Ref<const RowMatrixF>& x, ThreadPool& pool) {
  constexpr Eigen::Index kRows = 128;
  RowMatrixF kernel(x.rows(), x.rows());
  ForBlocks(x.rows(), kRows, &pool, [&](Eigen::Index first, Eigen::Index size) {
    Gemm(Op::kNone, Op::kTranspose, size, first + size, x.cols(), 1, x.row(first).data(), x.outerStride(), x.data(),
         x.outerStride(), 0, kernel.row(first).data(), kernel.outerStride());
  });
  return kernel;
}

RowMatrixF Gram(const Eigen::Ref<const RowMatrixF>& x, ThreadPool& pool) {
  // Block rows of the lower triangle are independent: no sums across threads.
  constexpr Eigen::Index kColumns = 128;
  constexpr Eigen::Index kRows = 1024;
  const Eigen::Index d = x.cols();
  RowMatrixF gram = RowMatrixF::Zero(d, d);
  ForBlocks(d, kColumns, &pool, [&](Eigen::Index first, Eigen::Index size) {
    for (Eigen::Index row = 0; row < x.rows(); row += kRows) {
      const Eigen::Index count = std::min(kRows, x.rows() - row);
      Gemm(Op::kTranspose, Op::kNone, size, first + size, count, 1, x.row(row).data() + first, x.outerStride(),
           x.row(row).data(), x.outerStride(), 1, &gram(first, 0), d);
    }
  });
  return gram;
}

}  // namespace ckn
