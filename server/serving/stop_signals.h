#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"

namespace ckn {

// SIGTERM and SIGINT, taken by a thread of their own: nothing runs in a signal handler. The first one asks the program
// to stop, the second one ends it at once with exit code 1.
class StopSignals {
 public:
  // Blocks both signals for the calling thread and every thread started after, so it comes before any other thread.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Blocks until the first signal; returns its number.
  int Wait();
  // Whether the first signal has come.
  [[nodiscard]] bool Received() const { return first_.HasBeenNotified(); }

 private:
  void Listen();

  absl::Notification first_;
  std::atomic<int> signal_{0};
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace ckn
