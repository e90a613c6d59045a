#include "server/simd/gemm.h"

#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/matrix.h"

namespace ckn {
namespace {

RowMatrixF Random(Eigen::Index rows, Eigen::Index cols, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  RowMatrixF m(rows, cols);
  for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = uniform(rng);
  return m;
}

TEST(GemmTest, MatchesDoublePrecisionForAllTranspositionsAndOddShapes) {
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {3, 5, 7}, {17, 50, 108}, {144, 33, 9}, {2, 400, 1}}) {
    for (const Op op_a : {Op::kNone, Op::kTranspose}) {
      for (const Op op_b : {Op::kNone, Op::kTranspose}) {
        const RowMatrixF a = op_a == Op::kNone ? Random(m, k, 1) : Random(k, m, 1);
        const RowMatrixF b = op_b == Op::kNone ? Random(k, n, 2) : Random(n, k, 2);
        RowMatrixF c = Random(m, n, 3);
        const RowMatrixD full_a =
            op_a == Op::kNone ? RowMatrixD(a.cast<double>()) : RowMatrixD(a.cast<double>().transpose());
        const RowMatrixD full_b =
            op_b == Op::kNone ? RowMatrixD(b.cast<double>()) : RowMatrixD(b.cast<double>().transpose());
        const RowMatrixD expected = 0.5 * full_a * full_b - 2 * c.cast<double>();
        Gemm(op_a, op_b, m, n, k, 0.5F, a.data(), a.cols(), b.data(), b.cols(), -2, c.data(), n);
        EXPECT_LT((c.cast<double>() - expected).cwiseAbs().maxCoeff(), 1e-6 * (k + 4)) << m << " " << n << " " << k;
      }
    }
  }
}

TEST(GemmTest, GivesEqualBitsOnEveryThread) {
  const RowMatrixF a = Random(300, 108, 1), b = Random(50, 108, 2);
  RowMatrixF here(300, 50), there(300, 50);
  Gemm(Op::kNone, Op::kTranspose, 300, 50, 108, 1, a.data(), 108, b.data(), 108, 0, here.data(), 50);
  std::thread([&] {
    Gemm(Op::kNone, Op::kTranspose, 300, 50, 108, 1, a.data(), 108, b.data(), 108, 0, there.data(), 50);
  }).join();
  EXPECT_EQ(here, there);
}

TEST(GemmTest, EmptyProductLeavesNothingToDo) {
  float c = 3;
  Gemm(Op::kNone, Op::kNone, 0, 1, 4, 1, nullptr, 4, nullptr, 1, 0, &c, 1);
  EXPECT_EQ(c, 3);
}

}  // namespace
}  // namespace ckn
