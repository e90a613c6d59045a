#pragma once

#include "server/base/matrix.h"
#include "server/base/thread_pool.h"

namespace ckn {

// Zero-phase whitening (ZCA) of patches [n][d]: V (L + floor * max L)^(-1/2) V^T, [d][d], where V L V^T is the mean of
// x x^T over the rows x. Without a floor the directions in which patches hardly vary, mostly noise, would be blown up.
RowMatrixF WhiteningMatrix(const Eigen::Ref<const RowMatrixF>& patches, double floor, ThreadPool& pool);

// Whitening by principal components: only the directions in which the patches vary most are kept.
struct PrincipalComponents {
  RowMatrixF basis;      // [components][d], orthonormal rows, largest variance first
  RowMatrixF whitening;  // [d][components]: x -> basis x, each component at unit variance
};
// components: at most d. Fewer come back when the patches vary in fewer directions.
PrincipalComponents FitPrincipalComponents(const Eigen::Ref<const RowMatrixF>& patches, Eigen::Index components,
                                           ThreadPool& pool);

// patches * whitening, [n][columns of whitening], each row then brought to unit norm.
void WhitenAndNormalise(const RowMatrixF& whitening, RowMatrixF& patches, ThreadPool& pool);

}  // namespace ckn
