#pragma once

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace ckn {

// Where deadlines and log intervals read the time, so that tests can set it.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual absl::Time Now() const = 0;
};

class RealClock final : public Clock {
 public:
  [[nodiscard]] absl::Time Now() const override { return absl::Now(); }
};

}  // namespace ckn
