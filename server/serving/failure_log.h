#pragma once

#include <array>

#include "absl/status/status.h"
#include "server/serving/clock.h"
#include "server/serving/metrics.h"
#include "server/serving/repeat_limit.h"

namespace ckn {

// Log lines about failed calls that a flood of bad requests cannot turn into a flood of lines: a RepeatLimit per method
// and status code. Server faults are errors, overload is a warning, what clients do wrong is information. Thread-safe.
class FailureLog {
 public:
  explicit FailureLog(const Clock& clock) : clock_(clock) {}

  // Does nothing for OK.
  void Record(Method method, const absl::Status& status);

 private:
  const Clock& clock_;
  std::array<std::array<RepeatLimit, kStatusCodeCount>, kMethodCount> limits_;
};

}  // namespace ckn
