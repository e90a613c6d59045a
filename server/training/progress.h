#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace ckn {

// What long work tells its caller, and how the caller stops it. Default: silent, never stopped.
struct Progress {
  // One line for people, already complete; from any thread, one call at a time.
  std::function<void(const std::string& line)> report = [](const std::string&) {};
  // Set by a signal handler or another thread; long loops look at it often.
  const std::atomic<bool>* stop = nullptr;

  [[nodiscard]] bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
};

// "layer 2: " in front of each line.
inline Progress WithPrefix(const Progress& progress, std::string prefix) {
  Progress prefixed = progress;
  prefixed.report = [report = progress.report, prefix = std::move(prefix)](const std::string& line) {
    report(prefix + line);
  };
  return prefixed;
}

inline absl::Status StoppedError() { return absl::CancelledError("stopped on request"); }

}  // namespace ckn
