#pragma once

#include <Eigen/Core>

namespace ckn {

// Row-major, since rows are samples, patches or filters and are read one after another.
using RowMatrixF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMatrixD = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace ckn
