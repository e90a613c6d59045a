#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "prometheus/gauge.h"
#include "server/base/helpers.h"
#include "server/serving/job_queue.h"

namespace ckn {

struct ExecutorOptions {
  // 0: none, the owner drives the work through RunOne().
  int threads = 1;
  // Jobs with items that no worker has taken yet.
  std::size_t max_queue = 64;
  // Of all accepted jobs that are not done, and of what is held. A job that is larger by itself is accepted when there
  // is nothing else.
  std::int64_t max_bytes = std::int64_t{1} << 30;
};

// A bounded queue and a fixed set of workers between transport and compute.
//
// Workers take one item at a time, or a few short ones, so that a call with a thousand images neither blocks the calls
// behind it nor leaves workers idle; JobQueue says whose. No lock is held while an item runs. Every accepted job gets
// its done(), also while draining and in the destructor; what makes a job give up early (deadline, cancellation) is up
// to its run.
//
// At most as many run items at a time as there are workers. A thread that brings jobs may take a worker's place for
// short ones (Lender), so that nothing is handed from thread to thread where that would cost as much as the work.
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

  // A thread that brings jobs and promises to call Lend() until it says no before it waits for anything. Until then,
  // short jobs, as many as take about the time in which a worker wakes, are left to it, or to a worker that has just
  // finished another; only for more is one woken.
  class Lender {
   public:
    // Of the calling thread, which has no other; the executor must outlive it.
    explicit Lender(Executor& executor);
    ~Lender();
    Lender(const Lender&) = delete;
    Lender& operator=(const Lender&) = delete;

    // Runs one short job, if one waits and a place is free; whether it did.
    bool Lend();

   private:
    friend class Executor;
    Executor& executor_;
    absl::Duration left_;  // of jobs for which no worker was woken
  };

  // RESOURCE_EXHAUSTED: the queue is full, or the memory; UNAVAILABLE: draining. After an error nothing of the job is
  // called.
  absl::Status Submit(Job job);

  // RESOURCE_EXHAUSTED: the queue is full, and a job that is not patient would be refused.
  [[nodiscard]] absl::Status CheckRoom() const;

  // Memory of jobs that are done counts for `bytes` more until the value is gone, before this executor: replies that
  // their clients have not taken yet. In a job's done() they are taken out of what the job itself counts for, so that
  // its reply counts once at every moment.
  [[nodiscard]] std::shared_ptr<void> Hold(std::int64_t bytes);
  // What is held at this moment.
  [[nodiscard]] std::int64_t held() const { return held_.load(std::memory_order_relaxed); }

  // Accepts no more jobs, finishes those accepted and stops the workers.
  void Drain();

  // The helpers of items are the workers that wait at that moment; other threads may ask, too.
  void Share(std::size_t count, absl::FunctionRef<void(std::size_t i)> body) override;

  // Runs the next items of a job on the calling thread. False when nothing waits.
  bool RunOne();

  [[nodiscard]] std::size_t queue_length() const;
  // Whether at this moment the queue is full, and that is work for a while: a queue may also be set to be short.
  [[nodiscard]] bool overloaded() const { return overloaded_.load(std::memory_order_relaxed); }
  // About how long the workers have to do with what waits at this moment.
  [[nodiscard]] absl::Duration backlog() const { return absl::Nanoseconds(backlog_.load(std::memory_order_relaxed)); }
  // Whether no item runs at this moment.
  [[nodiscard]] bool idle() const { return running_.load(std::memory_order_relaxed) == 0; }

 private:
  // A loop that is open to all, and how many have come to help: changed under mu_, and nobody who has left touches it.
  struct Shared {
    SharedLoop loop;
    std::atomic<int> helping{0};
  };

  void BeginAttention(std::size_t count) override;
  void EndAttention() override;

  // Of the calling thread, to this executor; nullptr: none.
  [[nodiscard]] Lender* LenderOfThisThread() const;

  void Work();
  // Waits awake for a while, without the lock, if loops are to come.
  bool Watch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `counted`: how much of it is in bytes_ already.
  void ChangeHeld(std::int64_t by, std::int64_t counted = 0);
  [[nodiscard]] absl::Status Room() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the next job is one for a lender.
  [[nodiscard]] bool ShortTurn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] bool MayTake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Help() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Withdraw(Shared& shared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AdmitOnePatient() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AdmitPatient() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes items and runs them, without the lock.
  void RunNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ExecutorOptions options_;
  prometheus::Gauge* const length_gauge_;
  prometheus::Gauge* const bytes_gauge_;

  mutable absl::Mutex mu_;
  absl::CondVar changed_;
  std::deque<std::shared_ptr<RunningJob>> patient_ ABSL_GUARDED_BY(mu_);  // not in the queue yet
  JobQueue queue_ ABSL_GUARDED_BY(mu_);
  std::uint64_t taken_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Shared*> shared_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> loops_open_{false};  // changed under mu_
  std::atomic<int> attention_{0};        // how many ask for it
  absl::CondVar helped_;
  // Changed under mu_: workers that wait; MayTake(); whether the queue holds all that it may.
  std::atomic<int> idle_{0};
  std::atomic<bool> may_take_{false}, overloaded_{false};
  std::atomic<std::int64_t> backlog_{0};  // in nanoseconds
  std::atomic<int> running_{0};           // threads that run items; changed under mu_
  absl::CondVar all_run_;                 // none is left, while draining
  std::int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::atomic<std::int64_t> held_{0};  // of them; changed under mu_
  bool draining_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<std::thread> workers_;
};

}  // namespace ckn
