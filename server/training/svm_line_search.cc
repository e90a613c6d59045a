#include "server/training/svm_line_search.h"

#include <cmath>
#include <limits>

namespace ckn {

double ExactLineSearch(const Eigen::Ref<const Eigen::VectorXd>& margins,
                       const Eigen::Ref<const Eigen::VectorXd>& slopes, double c, double linear, double quadratic) {
  double low = 0, high = std::numeric_limits<double>::infinity(), t = 1;
  for (int i = 0; i < 50; ++i) {
    double derivative = linear + t * quadratic;
    double second = quadratic;
    for (Eigen::Index j = 0; j < margins.size(); ++j) {
      const double xi = 1 - margins[j] - t * slopes[j];
      if (xi > 0) {
        derivative -= 2 * c * xi * slopes[j];
        second += 2 * c * slopes[j] * slopes[j];
      }
    }
    (derivative > 0 ? high : low) = t;
    double next = t - derivative / second;
    if (!(next > low && next < high)) next = std::isinf(high) ? 2 * t : 0.5 * (low + high);
    const bool converged = std::abs(next - t) <= 1e-9 * t;
    t = next;
    if (converged) break;
  }
  return t;
}

}  // namespace ckn
