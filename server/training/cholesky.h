#pragma once

#include "server/base/matrix.h"

namespace ckn {

// Replaces the lower triangle of the symmetric matrix `a` by its Cholesky factor L, a = L L^T; the strict upper
// triangle is not read and left undefined. Single precision, blocked so that almost all work is matrix products.
// Returns false when a pivot is not positive; `a` is then undefined.
bool CholeskyInPlace(RowMatrixF& a);

// Solves L L^T x = b in place; `lower` is the result of CholeskyInPlace.
void CholeskySolve(const RowMatrixF& lower, Eigen::VectorXf& b);

// lower triangle of `gram` += alpha * rows^T rows, rows [count][d] with leading dimension `stride`, d = gram.rows().
void AddGram(const float* rows, Eigen::Index count, Eigen::Index stride, float alpha, RowMatrixF& gram);

}  // namespace ckn
