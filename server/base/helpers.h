#pragma once

#include <atomic>
#include <cstddef>
#include <exception>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace ckn {

// A loop over independent items that several threads run together, each taking the next item. The body must outlive it.
class SharedLoop {
 public:
  SharedLoop(std::size_t count, absl::FunctionRef<void(std::size_t i)> body) : count_(count), body_(body) {}

  // Takes items while there are any and `leave`, looked at before each, is not true; others may still be at work on
  // theirs. What body throws ends the loop.
  void Run(const std::atomic<bool>* leave = nullptr);
  // Whether all items are taken.
  [[nodiscard]] bool exhausted() const { return next_.load(std::memory_order_relaxed) >= count_; }
  // Once all who ran it have returned.
  void RethrowError();

 private:
  const std::size_t count_;
  const absl::FunctionRef<void(std::size_t i)> body_;
  std::atomic<std::size_t> next_{0};
  absl::Mutex mu_;
  std::exception_ptr error_ ABSL_GUARDED_BY(mu_);
};

// Threads that lend a hand when they have nothing else to do. What a thread computes alone on a busy machine, idle ones
// share on a quiet one; which of them ran an item must not show in its result.
class Helpers {
 public:
  virtual ~Helpers() = default;

  // Calls body(i) once for each i in [0, count), on the calling thread and on those that are idle now. Returns when all
  // are done; what body throws is thrown here (the first of it). A body may share, too.
  virtual void Share(std::size_t count, absl::FunctionRef<void(std::size_t i)> body) = 0;

  // Loops come soon and one after the other, for up to `count` threads besides the calling one: idle threads need not
  // sleep before the first one nor between them. A hint, and only until the Attention ends.
  class Attention {
   public:
    // `helpers` may be nullptr.
    Attention(Helpers* helpers, std::size_t count);
    ~Attention();
    Attention(const Attention&) = delete;
    Attention& operator=(const Attention&) = delete;

   private:
    Helpers* const helpers_;
  };

  // Those of the calling thread; nullptr: it is on its own.
  static Helpers* OfThisThread();

  // While it lives, the calling thread has these.
  class Scope {
   public:
    explicit Scope(Helpers* helpers);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Helpers* const before_;
  };

 protected:
  virtual void BeginAttention(std::size_t /*count*/) {}
  virtual void EndAttention() {}
};

}  // namespace ckn
