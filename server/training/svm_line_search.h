#pragma once

#include <Eigen/Core>

namespace ckn {

// The t >= 0 at which P(v + t step) of svm_solver.h is least, exactly up to rounding: the derivative is piecewise
// linear and increasing, so Newton steps on it, kept inside a bracket, end after finitely many pieces. margins [n] are
// those at v, slopes [n] their change with t; linear = v . step, quadratic = step . step.
double ExactLineSearch(const Eigen::Ref<const Eigen::VectorXd>& margins,
                       const Eigen::Ref<const Eigen::VectorXd>& slopes, double c, double linear, double quadratic);

}  // namespace ckn
