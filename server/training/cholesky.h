#pragma once

#include "server/base/matrix.h"
#include "server/base/thread_pool.h"

// Single precision, blocked so that almost all work is matrix products. A pool, where one is given, shares the work;
// the result is the same without.
namespace ckn {

// Replaces the lower triangle of the symmetric matrix `a` by its Cholesky factor L, a = L L^T; the strict upper
// triangle is not read and left undefined.
// Returns false when a pivot is not positive; `a` is then undefined.
bool CholeskyInPlace(RowMatrixF& a, ThreadPool* pool = nullptr);

// Solves L L^T x = b in place; `lower` is the result of CholeskyInPlace.
void CholeskySolve(const RowMatrixF& lower, Eigen::VectorXf& b);
// The same for each column of b [d][m].
void CholeskySolve(const RowMatrixF& lower, RowMatrixF& b, ThreadPool& pool);

// lower triangle of `gram` += alpha * rows^T rows, rows [count][d] with leading dimension `stride`, d = gram.rows().
void AddGram(const float* rows, Eigen::Index count, Eigen::Index stride, float alpha, RowMatrixF& gram);

// Lower triangle of x x^T; the rest is undefined.
RowMatrixF Kernel(const Eigen::Ref<const RowMatrixF>& x, ThreadPool& pool);

// Lower triangle of x^T x; the rest is 0.
RowMatrixF Gram(const Eigen::Ref<const RowMatrixF>& x, ThreadPool& pool);

}  // namespace ckn
