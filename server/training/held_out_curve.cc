#include "server/training/held_out_curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace ckn {

void HeldOutCurve::Add(std::vector<bool> wrong) {
  const std::int64_t errors = std::count(wrong.begin(), wrong.end(), true);
  if (first_errors_ < 0) first_errors_ = errors;
  if (best_wrong_.empty() || errors < best_errors_) {
    best_wrong_ = std::move(wrong);
    best_errors_ = errors;
    since_best_ = clearly_worse_ = 0;
    return;
  }
  ++since_best_;
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < wrong.size(); ++i) differ += wrong[i] != best_wrong_[i] ? 1 : 0;
  const bool clearly = static_cast<double>(errors - best_errors_) > 2 * std::sqrt(static_cast<double>(differ));
  clearly_worse_ = clearly ? clearly_worse_ + 1 : 0;
}

bool HeldOutCurve::BestIsBehind() const {
  constexpr int kClearlyWorse = 2, kPlateau = 6;
  return best_errors_ < first_errors_ && (clearly_worse_ >= kClearlyWorse || since_best_ >= kPlateau);
}

}  // namespace ckn
