#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace ckn {

// SIGTERM, SIGINT and SIGHUP, acted on by a thread of their own. The first one of the former two asks the program to
// stop, the second one ends it at once with exit code 1. At most one object at a time.
//
// The handler only writes a byte to a pipe. Blocking the signals for sigwait() would be simpler but does not work here:
// libraries start threads before main() (OpenBLAS, where it is the BLAS of L-BFGS-B), and a signal would go to one of
// those. Threads started while this object lives have the signals blocked (see base/signal_mask.h).
class StopSignals {
 public:
  StopSignals();
  // Restores what the signals did before.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // What SIGHUP does, on the signals' thread. One that came before this is called is acted on now.
  void OnHangup(std::function<void()> action);

  // Blocks until the first signal to stop; returns its number.
  int Wait();

 private:
  void Listen();

  absl::Mutex mu_;
  std::function<void()> on_hangup_ ABSL_GUARDED_BY(mu_);
  bool hangup_waits_ ABSL_GUARDED_BY(mu_) = false;
  absl::Notification first_;
  std::atomic<int> signal_{0};
  std::thread thread_;
};

}  // namespace ckn
