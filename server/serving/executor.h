#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/gauge.h"
#include "server/base/helpers.h"

namespace ckn {

// The work of one call: `items` independent pieces, at least one. run(i) is called once for each i in [0, items),
// possibly by several workers at a time; then done() once, by the worker that finished last. Neither may throw.
struct Job {
  std::size_t items = 1;
  std::int64_t bytes = 0;  // that the job keeps in memory until it is done
  // Waits for room in the queue instead of being refused, and leaves half of it to those that do not. For work that is
  // bounded in another way.
  bool patient = false;
  std::function<void(std::size_t item)> run;
  std::function<void()> done;
};

struct ExecutorOptions {
  // 0: none, the owner drives the work through RunOne().
  int threads = 1;
  // Jobs with items that no worker has taken yet.
  std::size_t max_queue = 64;
  // Of all accepted jobs that are not done. A job that is larger by itself is accepted when there is no other.
  std::int64_t max_bytes = std::int64_t{1} << 30;
};

// A bounded queue and a fixed set of workers between transport and compute.
//
// Workers take one item at a time from the waiting jobs in turn, so that a call with a thousand images neither blocks
// the calls behind it nor leaves workers idle. No lock is held while an item runs. Every accepted job gets its done(),
// also while draining and in the destructor; what makes a job give up early (deadline, cancellation) is up to its run.
//
// A worker that finds the queue empty joins the loops that items share (Helpers): one image alone is computed by all
// workers, many images by one worker each. It leaves such a loop when a job comes.
class Executor : public Helpers {
 public:
  // The gauges follow the number of waiting jobs and the bytes of all; may be null.
  Executor(const ExecutorOptions& options, prometheus::Gauge* queue_length, prometheus::Gauge* bytes = nullptr);
  // Drains.
  ~Executor() override;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // RESOURCE_EXHAUSTED: the queue is full, or the memory; UNAVAILABLE: draining. After an error nothing of the job is
  // called.
  absl::Status Submit(Job job);

  // Accepts no more jobs, finishes those accepted and stops the workers.
  void Drain();

  // The helpers of items are the workers that wait at that moment; other threads may ask, too.
  void Share(std::size_t count, absl::FunctionRef<void(std::size_t i)> body) override;

  // Runs one item of the next job on the calling thread. False when nothing waits.
  bool RunOne();

  [[nodiscard]] std::size_t queue_length() const;

 private:
  struct Running {
    explicit Running(Job j) : job(std::move(j)), left(job.items) {}
    const Job job;
    std::size_t next = 0;  // first item not taken; guarded by Executor::mu_
    std::atomic<std::size_t> left;
  };
  struct Item {
    std::shared_ptr<Running> running;
    std::size_t index = 0;
  };

  // A loop that is open to all, and how many have come to help.
  struct Shared {
    SharedLoop loop;
    int helping = 0;
  };

  void Work();
  void Help() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Withdraw(Shared& shared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AdmitPatient() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Item Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(const Item& item);

  const ExecutorOptions options_;
  prometheus::Gauge* const length_gauge_;
  prometheus::Gauge* const bytes_gauge_;

  mutable absl::Mutex mu_;
  absl::CondVar changed_;
  std::deque<std::shared_ptr<Running>> patient_ ABSL_GUARDED_BY(mu_);  // not in the queue yet
  std::deque<std::shared_ptr<Running>> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Shared*> shared_ ABSL_GUARDED_BY(mu_);
  absl::CondVar helped_;
  // Changed under mu_: workers that wait; whether the queue holds anything.
  std::atomic<int> idle_{0};
  std::atomic<bool> jobs_wait_{false};
  std::int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<std::thread> workers_;
};

}  // namespace ckn
