#include "server/simd/gemm.h"

#include <omp.h>

#include <cassert>
#include <oneapi/dnnl/dnnl.hpp>

namespace ckn {

void Gemm(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
          std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  // oneDNN asks OpenMP how many threads it may use, and OpenMP keeps that number per thread: parallelism is this
  // program's business, over images and blocks.
  thread_local const bool single_threaded = (omp_set_num_threads(1), true);
  static_cast<void>(single_threaded);
  if (m == 0 || n == 0) return;
  const auto letter = [](Op op) { return op == Op::kNone ? 'N' : 'T'; };
  [[maybe_unused]] const dnnl_status_t status =
      dnnl_sgemm(letter(op_a), letter(op_b), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  assert(status == dnnl_success);
}

}  // namespace ckn
