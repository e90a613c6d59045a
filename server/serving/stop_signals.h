#pragma once

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"

namespace ckn {

// SIGTERM and SIGINT, acted on by a thread of their own. The first one asks the program to stop, the second one ends it
// at once with exit code 1. At most one object at a time.
//
// The handler only writes a byte to a pipe. Blocking the signals for sigwait() would be simpler but does not work here:
// libraries start threads before main() (OpenBLAS, which OpenCV brings in), and a signal would go to one of those.
// Threads started while this object lives have the signals blocked (see base/signal_mask.h).
class StopSignals {
 public:
  StopSignals();
  // Restores what the signals did before.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Blocks until the first signal; returns its number.
  int Wait();

 private:
  void Listen();

  absl::Notification first_;
  std::atomic<int> signal_{0};
  std::thread thread_;
};

}  // namespace ckn
