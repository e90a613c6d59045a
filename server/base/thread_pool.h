#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace ckn {

// A fixed set of threads for loops over independent items.
class ThreadPool {
 public:
  // threads >= 1 counts the calling thread, so ThreadPool(1) starts none.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(i, worker) once for each i in [0, count), in any order, and returns when all are done. worker is in
  // [0, threads()) and no two calls at the same time have the same one: it indexes scratch space. Exceptions thrown
  // by body are rethrown here (the first one). Not re-entrant; one loop at a time.
  void ParallelFor(std::size_t count, const std::function<void(std::size_t i, int worker)>& body);

 private:
  struct Loop;
  void Work(int worker);
  static void RunLoop(Loop& loop, int worker);

  absl::Mutex mu_;
  Loop* loop_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::size_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  int busy_ ABSL_GUARDED_BY(mu_) = 0;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace ckn
