#include "server/base/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <cassert>
#include <exception>

namespace ckn {

struct ThreadPool::Loop {
  const std::function<void(std::size_t, int)>* body = nullptr;
  std::size_t count = 0;
  std::atomic<std::size_t> next{0};
  absl::Mutex mu;
  std::exception_ptr error ABSL_GUARDED_BY(mu);
};

ThreadPool::ThreadPool(int threads) {
  assert(threads >= 1);
  workers_.reserve(threads - 1);
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { Work(worker); });
    // What `top -H` shows.
    pthread_setname_np(workers_.back().native_handle(), "ckn-pool");
  }
}

ThreadPool::~ThreadPool() {
  {
    const absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunLoop(Loop& loop, int worker) {
  for (std::size_t i; (i = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.count;) {
    try {
      (*loop.body)(i, worker);
    } catch (...) {
      const absl::MutexLock lock(&loop.mu);
      if (!loop.error) loop.error = std::current_exception();
      loop.next.store(loop.count, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::Work(int worker) {
  std::size_t seen = 0;
  for (;;) {
    Loop* loop = nullptr;
    {
      const absl::MutexLock lock(&mu_);
      const auto ready = [this, &seen]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stop_ || generation_ != seen; };
      mu_.Await(absl::Condition(&ready));
      if (stop_) return;
      seen = generation_;
      loop = loop_;
    }
    RunLoop(*loop, worker);
    const absl::MutexLock lock(&mu_);
    --busy_;
  }
}

void ThreadPool::ParallelFor(std::size_t count, const std::function<void(std::size_t i, int worker)>& body) {
  Loop loop;
  loop.body = &body;
  loop.count = count;
  if (!workers_.empty()) {
    const absl::MutexLock lock(&mu_);
    loop_ = &loop;
    busy_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  RunLoop(loop, 0);
  if (!workers_.empty()) {
    const absl::MutexLock lock(&mu_);
    const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return busy_ == 0; };
    mu_.Await(absl::Condition(&done));
    loop_ = nullptr;
  }
  const absl::MutexLock lock(&loop.mu);
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace ckn
