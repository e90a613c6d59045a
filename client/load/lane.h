#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"

namespace ckn {

using SteadyTime = std::chrono::steady_clock::time_point;

// What a completion queue of the load generator gives back: its tags.
class Event {
 public:
  virtual ~Event() = default;
  // The operation has ended; `ok` as in grpc::CompletionQueue::Next.
  virtual void Run(bool ok) = 0;
};

class Lane;

// The end of one call.
struct CallEnd {
  absl::Status status;
  grpc::ByteBuffer* reply = nullptr;  // when status is OK
  SteadyTime due, sent;
};

// Who is told, on the thread of the lane's completion queue; may send on the same lane.
class LaneOwner {
 public:
  virtual ~LaneOwner() = default;
  virtual void OnDone(Lane& lane, const CallEnd& end) = 0;
  // After Lane::Close().
  virtual void OnClosed() = 0;
};

// A connection on which calls are sent.
class Lane {
 public:
  virtual ~Lane() = default;
  // Thread-safe. `message` must live until the call has ended. `due`: when the call was to be sent.
  virtual void Send(const grpc::ByteBuffer& message, SteadyTime due) = 0;
  // Once, when no call is in flight and none will be sent.
  virtual void Close() = 0;
  // From time to time, on the thread of the completion queue.
  virtual void CheckTimeout() {}
};

}  // namespace ckn
