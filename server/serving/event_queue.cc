#include "server/serving/event_queue.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "grpc/support/time.h"

namespace ckn {
namespace {

// Between looks at the connections under overload.
constexpr absl::Duration kOverloadPause = absl::Milliseconds(1);
// With a backlog: no longer than a quarter of it, and only if that saves several wakes.
constexpr absl::Duration kShortestPause = absl::Microseconds(100);
constexpr absl::Duration kLongestPause = absl::Microseconds(500);

// How long this thread may do nothing before it looks again. While the workers have enough to do, it takes time from
// them each time it wakes or is woken, and what it brings them only waits.
absl::Duration Pause(const Executor& executor) {
  if (executor.overloaded()) return kOverloadPause;
  const absl::Duration pause = std::min(executor.backlog() / 4, kLongestPause);
  return pause < kShortestPause ? absl::ZeroDuration() : pause;
}

thread_local const EventQueue* queue_of_this_thread = nullptr;

void Happened(void* tag, bool ok) {
  const std::unique_ptr<EventQueue::Then> then(static_cast<EventQueue::Then*>(tag));
  (*then)(ok);
}

}  // namespace

EventQueue::EventQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue, Executor* executor,
                       EventQueueOptions options)
    : executor_(executor), options_(std::move(options)), queue_(std::move(queue)), thread_([this] { Work(); }) {
  pthread_setname_np(thread_.native_handle(), "ckn-events");
}

EventQueue::~EventQueue() {
  guest_.reset();
  guests_gone_.WaitForNotification();
  Run([this] {
    stopping_ = true;
    alarm_.Cancel();
    queue_->Shutdown();
  });
  thread_.join();
}

void* EventQueue::Tag(Then then) {
  return new Then(std::move(then));  // NOLINT(cppcoreguidelines-owning-memory): Happened() or Drop() deletes it
}

void EventQueue::Drop(void* tag) { const std::unique_ptr<Then> then(static_cast<Then*>(tag)); }

void EventQueue::Run(std::function<void()> function) {
  if (queue_of_this_thread == this) return function();
  const absl::MutexLock lock(&mu_);
  posted_.push_back(std::move(function));
  has_posted_.store(true, std::memory_order_relaxed);
  if (!std::exchange(waiting_, false)) return;
  alarm_.Cancel();
}

void EventQueue::SetAlarm() {
  alarm_.Set(queue_.get(), gpr_inf_future(GPR_CLOCK_MONOTONIC), Tag([this](bool /*ok*/) {
               if (!stopping_) SetAlarm();
             }));
}

void EventQueue::RunPosted() {
  if (!has_posted_.load(std::memory_order_relaxed)) return;
  std::vector<std::function<void()>> posted;
  {
    const absl::MutexLock lock(&mu_);
    posted.swap(posted_);
    has_posted_.store(false, std::memory_order_relaxed);
  }
  for (const std::function<void()>& function : posted) function();
}

bool EventQueue::LookForEvent() {
  void* tag = nullptr;
  bool ok = false;
  if (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_REALTIME)) != grpc::CompletionQueue::GOT_EVENT) return false;
  Happened(tag, ok);
  return true;
}

bool EventQueue::WaitForEvent() {
  while (executor_ != nullptr && !stopping_) {
    const absl::Duration pause = Pause(*executor_);
    if (pause == absl::ZeroDuration()) break;
    absl::SleepFor(pause);
    // Not to be woken by each event, whose thread would have to wait for that.
    if (has_posted_.load(std::memory_order_relaxed) || LookForEvent()) return true;
  }
  // To sleep and to be woken often takes longer than the next call takes to come, above all on virtual machines.
  if (options_.poll > absl::ZeroDuration()) {
    // Not the time of day, which may be set back.
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(options_.poll);
    while (!has_posted_.load(std::memory_order_relaxed) && (executor_ == nullptr || executor_->idle()) &&
           std::chrono::steady_clock::now() < end) {
      if (LookForEvent()) return true;
    }
  }
  {
    const absl::MutexLock lock(&mu_);
    if (!posted_.empty()) return true;
    waiting_ = true;
  }
  void* tag = nullptr;
  bool ok = false;
  const bool more = queue_->Next(&tag, &ok);
  {
    const absl::MutexLock lock(&mu_);
    waiting_ = false;
  }
  if (more) Happened(tag, ok);
  return more;
}

void EventQueue::Work() {
  queue_of_this_thread = this;
  std::optional<Executor::Lender> lender;
  if (executor_ != nullptr) lender.emplace(*executor_);
  SetAlarm();
  // After so many events in a row the executor gets what came with them, even if there are more.
  constexpr int kMaxEvents = 64;
  while (WaitForEvent()) {
    do {
      RunPosted();
      for (int events = 1; events < kMaxEvents && LookForEvent(); ++events) {
      }
    } while (lender && lender->Lend());
  }
}

}  // namespace ckn
