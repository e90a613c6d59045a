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
  }
  thread_.join();
}

void BackgroundThread::Run(std::function<void()> task) {
  const absl::MutexLock lock(&mu_);
  tasks_.push_back(std::move(task));
}

void BackgroundThread::Work() {
  absl::Time next = absl::Now() + interval_;
  for (;;) {
    std::function<void()> task = repeated_;
    {
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stop_ || !tasks_.empty(); };
      const absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithDeadline(absl::Condition(&due), next)) {
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
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
