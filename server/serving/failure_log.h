#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/serving/clock.h"
#include "server/serving/metrics.h"

namespace ckn {

// Log lines about failed calls that a flood of bad requests cannot turn into a flood of lines: at most one per method,
// status code and interval; the next one says how many were left out. Server faults are errors, overload is a warning,
// what clients do wrong is information. Thread-safe.
class FailureLog {
 public:
  explicit FailureLog(const Clock& clock, absl::Duration interval = absl::Seconds(10));

  // Does nothing for OK.
  void Record(Method method, const absl::Status& status);

 private:
  struct Kind {
    absl::Time last = absl::InfinitePast();
    std::uint64_t left_out = 0;
  };

  const Clock& clock_;
  const absl::Duration interval_;
  absl::Mutex mu_;
  std::array<std::array<Kind, kStatusCodeCount>, kMethodCount> kinds_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ckn
