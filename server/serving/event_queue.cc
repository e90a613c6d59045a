#include "server/serving/event_queue.h"

#include <pthread.h>

#include <optional>
#include <utility>

#include "grpc/support/time.h"

namespace ckn {
namespace {

thread_local const EventQueue* queue_of_this_thread = nullptr;

void Happened(void* tag, bool ok) {
  const std::unique_ptr<EventQueue::Then> then(static_cast<EventQueue::Then*>(tag));
  (*then)(ok);
}

}  // namespace

EventQueue::EventQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue, Executor* executor)
    : executor_(executor), queue_(std::move(queue)), thread_([this] { Work(); }) {
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
  if (!std::exchange(waiting_, false)) return;
  alarm_.Cancel();
}

void EventQueue::SetAlarm() {
  alarm_.Set(queue_.get(), gpr_inf_future(GPR_CLOCK_MONOTONIC), Tag([this](bool /*ok*/) {
               if (!stopping_) SetAlarm();
             }));
}

void EventQueue::RunPosted() {
  std::vector<std::function<void()>> posted;
  {
    const absl::MutexLock lock(&mu_);
    posted.swap(posted_);
  }
  for (const std::function<void()>& function : posted) function();
}

bool EventQueue::WaitForEvent() {
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
      void* tag = nullptr;
      bool ok = false;
      for (int events = 1; events < kMaxEvents; ++events) {
        if (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_REALTIME)) != grpc::CompletionQueue::GOT_EVENT) break;
        Happened(tag, ok);
      }
    } while (lender && lender->Lend());
  }
}

}  // namespace ckn
