#pragma once

#include "server/base/matrix.h"
#include "server/base/thread_pool.h"

namespace ckn {

// Zero-phase whitening (ZCA) of patches [n][d]: V (L + floor * max L)^(-1/2) V^T, [d][d], where V L V^T is the mean of
// x x^T over the rows x. Without a floor the directions in which patches hardly vary, mostly noise, would be blown up.
RowMatrixF WhiteningMatrix(const Eigen::Ref<const RowMatrixF>& patches, double floor, ThreadPool& pool);

// patches * whitening, each row then brought to unit norm.
void WhitenAndNormalise(const RowMatrixF& whitening, RowMatrixF& patches, ThreadPool& pool);

}  // namespace ckn
