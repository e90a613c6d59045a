#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace ckn {

// Keeps what happens often from becoming a flood of log lines: of lines about the same, one in ten seconds; the next
// one says how many were left out. Thread-safe.
class RepeatLimit {
 public:
  // What goes at the line's end: nothing, or how many were left out before it. Not set: leave this one out.
  std::optional<std::string> Admit(absl::Time now);

 private:
  absl::Mutex mu_;
  absl::Time last_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  std::uint64_t left_out_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace ckn
