#pragma once

#include <cstdint>

namespace ckn {

enum class Op { kNone, kTranspose };

// C = alpha * op(A) * op(B) + beta * C in single precision, row-major, leading dimensions in elements.
// op(A) is m x k, op(B) is k x n, C is m x n. Runs on the calling thread alone, on the best instruction set of the
// machine (oneDNN); equal shapes and values give equal bits on every thread.
void Gemm(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
          std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);

}  // namespace ckn
