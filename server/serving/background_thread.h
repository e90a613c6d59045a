#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace ckn {

// One thread for work that calls must not wait for: tasks in the order in which they came, and one that is repeated.
class BackgroundThread {
 public:
  // `repeated` runs every `interval`; never, if that is infinite.
  BackgroundThread(absl::Duration interval, std::function<void()> repeated);
  // Finishes the tasks that are there.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void Run(std::function<void()> task);

 private:
  void Work();

  const absl::Duration interval_;
  const std::function<void()> repeated_;
  absl::Mutex mu_;
  absl::CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace ckn
