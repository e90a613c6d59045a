#include "server/serving/background_thread.h"

#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "server/base/guarded.h"
#include "spdlog/spdlog.h"

namespace ckn {

BackgroundThread::BackgroundThread(absl::Duration interval, std::function<void()> repeated)
    : interval_(interval), repeated_(std::move(repeated)), thread_([this] { Work(); }) {}

BackgroundThread::~BackgroundThread() {
  {
    const absl::MutexLock lock(&mu_);
    stop_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void BackgroundThread::Run(std::function<void()> task) {
  const absl::MutexLock lock(&mu_);
  tasks_.push_back(std::move(task));
  changed_.Signal();
}

void BackgroundThread::Work() {
  absl::Time next = absl::Now() + interval_;
  for (;;) {
    std::function<void()> task = repeated_;
    {
      const absl::MutexLock lock(&mu_);
      bool late = false;
      while (tasks_.empty() && !stop_ && !late) late = changed_.WaitWithDeadline(&mu_, next);
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
      } else if (stop_) {
        return;
      } else {
        next = absl::Now() + interval_;
      }
    }
    const absl::Status status = Guarded([&task] {
      task();
      return absl::OkStatus();
    });
    if (!status.ok()) spdlog::error("background work: {}", std::string(status.message()));
  }
}

}  // namespace ckn
