#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "server/serving/executor.h"

namespace ckn {

struct EventQueueOptions {
  // While the executor has nothing to do, the thread looks for the next event for so long before it sleeps.
  absl::Duration poll = absl::ZeroDuration();
  // For a client to take a large reply; a second more for each MiB of it, and for each 16 MiB that all replies hold.
  // Then the call is cancelled.
  absl::Duration reply_timeout = absl::InfiniteDuration();
  // Told of each call that is, with the client as GrpcCall::Peer() names it.
  std::function<void(std::string_view peer)> on_reply_timeout = [](std::string_view /*peer*/) {};
  // Ends the connection of a client. For calls that gRPC cannot cancel, because it waits for the socket to take their
  // last bytes.
  std::function<void(std::string_view peer)> disconnect = [](std::string_view /*peer*/) {};
};

// One of gRPC's completion queues and the thread that serves it. All operations of the queue's calls begin on that
// thread: where several threads work on one connection, gRPC hands its work on to another one.
class EventQueue {
 public:
  // What follows an operation of gRPC; not ok: it failed, or the server is stopping.
  using Then = std::function<void(bool ok)>;

  // `executor`, if any, borrows the thread (Executor::Lender) and must outlive this.
  EventQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue, Executor* executor, EventQueueOptions options);
  // Waits for the guests to go.
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  [[nodiscard]] grpc::ServerCompletionQueue& queue() { return *queue_; }
  [[nodiscard]] const EventQueueOptions& options() const { return options_; }
  // Executor::Hold(), if there is one.
  [[nodiscard]] std::shared_ptr<void> Hold(std::int64_t bytes) {
    return executor_ == nullptr ? nullptr : executor_->Hold(bytes);
  }
  [[nodiscard]] std::int64_t held() const { return executor_ == nullptr ? 0 : executor_->held(); }
  // The tag for an operation of gRPC, after which `then` runs, on this thread. Each tag is for one operation.
  [[nodiscard]] static void* Tag(Then then);
  // For the tag of an operation that never began.
  static void Drop(void* tag);

  // To be kept by what begins operations; none may begin without.
  [[nodiscard]] std::shared_ptr<void> Guest() const { return guest_; }

  // On this thread, in the order of the calls; at once, when the caller is this thread.
  void Run(std::function<void()> function);

 private:
  void Work();
  // Whether there was an event. Does not wait.
  bool LookForEvent();
  // Waits for the next event. False: the queue has been shut down, and this was the last one.
  bool WaitForEvent();
  void RunPosted();
  void SetAlarm();

  Executor* const executor_;
  const EventQueueOptions options_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  absl::Notification guests_gone_;
  std::shared_ptr<void> guest_{this, [](EventQueue* self) { self->guests_gone_.Notify(); }};
  // Never goes off by itself; cancelled, it is an event. That wakes this thread alone: an alarm that is due at once
  // would wake gRPC's timers, too.
  grpc::Alarm alarm_;
  bool stopping_ = false;  // of the thread
  absl::Mutex mu_;
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mu_);  // by other threads
  std::atomic<bool> has_posted_{false};                             // changed under mu_
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;                       // for an event, and not woken yet
  std::thread thread_;
};

}  // namespace ckn
