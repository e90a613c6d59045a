#include "client/load/unary_lane.h"

#include "absl/time/time.h"
#include "client/channel.h"

namespace ckn {

// Deletes itself at its end.
class UnaryLane::Call final : public Event {
 public:
  Call(UnaryLane& lane, const grpc::ByteBuffer& message, SteadyTime due) : lane_(lane), due_(due) {
    PrepareContext(lane.options_, context_);
    if (lane.options_.timeout != absl::InfiniteDuration()) {
      context_.set_deadline(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(lane.options_.timeout));
    }
    reader_ = lane.stub_.PrepareUnaryCall(&context_, lane.path_, message, &lane.queue_);
  }

  void Start() {
    sent_ = std::chrono::steady_clock::now();
    reader_->StartCall();
    reader_->Finish(&reply_, &status_, this);
  }

  void Run(bool /*ok*/) override {
    const std::unique_ptr<Call> self(this);
    lane_.owner_.OnDone(lane_, {StatusFromGrpc(status_), &reply_, due_, sent_});
  }

 private:
  UnaryLane& lane_;
  const SteadyTime due_;
  SteadyTime sent_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
};

void UnaryLane::Send(const grpc::ByteBuffer& message, SteadyTime due) {
  auto call = std::make_unique<Call>(*this, message, due);
  call.release()->Start();  // which may already have ended when Start returns
}

}  // namespace ckn
