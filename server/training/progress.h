#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace ckn {

// What long work tells its caller, and how the caller stops it. Default: silent, never stopped.
struct Progress {
  // One line for people, already complete; called from the thread that runs the work.
  std::function<void(const std::string& line)> report = [](const std::string&) {};
  // Set by a signal handler or another thread; long loops look at it often.
  const std::atomic<bool>* stop = nullptr;

  [[nodiscard]] bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
};

inline absl::Status StoppedError() { return absl::CancelledError("stopped on request"); }

}  // namespace ckn
