#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/client.h"
#include "client/load/lane.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace ckn {

// Sends calls as the requests of one bidirectional stream, which answers them in their order. A stream that breaks ends
// all calls in it with its status, and the next call opens another one. So does, with DEADLINE_EXCEEDED, an answer, or
// the end of the stream, that takes longer than the client's timeout.
class StreamLane final : public Lane {
 public:
  // All references must outlive this object, and it its stream: destroy it after OnClosed.
  StreamLane(const std::shared_ptr<grpc::Channel>& channel, std::string path, const ClientOptions& options,
             grpc::CompletionQueue& queue, LaneOwner& owner);

  void Send(const grpc::ByteBuffer& message, SteadyTime due) override;
  void Close() override;
  void CheckTimeout() override;

 private:
  enum class State {
    kIdle,     // no stream
    kOpening,  // started
    kOpen,
    kBroken,  // nothing more comes; its status is being fetched, or will be once the last write has ended
  };
  // One kind of operation of the stream.
  class Step final : public Event {
   public:
    Step(StreamLane& lane, void (StreamLane::*run)(bool ok)) : lane_(lane), run_(run) {}
    void Run(bool ok) override { (lane_.*run_)(ok); }

   private:
    StreamLane& lane_;
    void (StreamLane::*const run_)(bool ok);
  };
  struct Sent {
    SteadyTime due, sent;
  };

  void OnOpened(bool ok);
  void OnWritten(bool ok);
  void OnRead(bool ok);
  void OnFinished(bool ok);

  void Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The next request, or after the last one of a lane that is closing, that there are no more.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Break() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  grpc::GenericStub stub_;
  const std::string path_;
  const ClientOptions& options_;
  grpc::CompletionQueue& queue_;
  LaneOwner& owner_;
  Step opened_, written_, read_, finished_;

  absl::Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kIdle;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;      // a request, or that there are no more
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;  // no request may be written any more
  std::optional<SteadyTime> closing_since_ ABSL_GUARDED_BY(mu_);
  bool late_ ABSL_GUARDED_BY(mu_) = false;  // an answer
  std::deque<const grpc::ByteBuffer*> to_write_ ABSL_GUARDED_BY(mu_);
  std::deque<Sent> unanswered_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
};

}  // namespace ckn
