#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "server/serving/grpc_call.h"

namespace ckn {

// A stream of requests, which are worked on at the same time, a few of them, and answered in their order. A client that
// does not read its answers is not read from: no request is read while what is held of the stream is a message of the
// largest size or more. The answers count as in work (GrpcCall::Hold) until they are taken.
class OrderedStream final : public std::enable_shared_from_this<OrderedStream> {
 public:
  using Done = std::function<void(grpc::ByteBuffer reply)>;
  // Answers one request, whose bytes it may take. `done` is called once, on any thread.
  using Answer = std::function<void(const CallContext& call, grpc::ByteBuffer* request, Done done)>;

  // Lives as long as the call.
  static void Serve(std::shared_ptr<GrpcCall> call, std::size_t max_message_bytes, Answer answer);

 private:
  struct Item {
    grpc::ByteBuffer message;  // the request; once answered, the reply
    std::size_t bytes = 0;     // of it
    bool answered = false;
    std::shared_ptr<void> held;  // the memory of the reply
  };

  OrderedStream(std::shared_ptr<GrpcCall> call, std::size_t max_message_bytes, Answer answer);

  enum class Event { kOpened, kRead, kReadAll, kAnswered, kWritten, kBroken };

  // Notes what has happened and starts what can go on.
  void Step(Event event, Item* item = nullptr);
  void Note(Event event, Item* item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Read(bool ok);
  void SetBytes(Item& item, std::size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PopFront() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<GrpcCall> call_;
  const std::size_t max_message_bytes_;
  const Answer answer_;

  absl::Mutex mu_;
  std::size_t held_bytes_ ABSL_GUARDED_BY(mu_) = 0;               // of the items
  std::deque<std::unique_ptr<Item>> items_ ABSL_GUARDED_BY(mu_);  // in the order of the requests
  bool reading_ ABSL_GUARDED_BY(mu_) = false;                     // into the last item
  bool read_all_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;  // the first item
  bool broken_ ABSL_GUARDED_BY(mu_) = false;   // no more writes
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ckn
