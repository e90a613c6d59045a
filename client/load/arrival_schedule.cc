#include "client/load/arrival_schedule.h"

#include <cmath>

namespace ckn {

std::chrono::nanoseconds ArrivalSchedule::Next() {
  const std::int64_t call = calls_++;
  double seconds = 0;
  if (arrivals_ == Arrivals::kConstant) {
    seconds = static_cast<double>(call) / rate_;  // no sum of rounded steps, which would drift
  } else {
    seconds = poisson_seconds_;
    // By hand, since the distributions of the standard library differ from one to another. In [0, 1) with 53 bits.
    const double uniform = static_cast<double>(rng_() >> 11U) * 0x1p-53;
    poisson_seconds_ -= std::log1p(-uniform) / rate_;
  }
  return std::chrono::nanoseconds(std::llround(1e9 * seconds));
}

}  // namespace ckn
