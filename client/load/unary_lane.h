#pragma once

#include <memory>
#include <string>

#include "client/client.h"
#include "client/load/lane.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace ckn {

// Sends each call as an RPC of its own, whose deadline is the client's timeout after it was sent.
class UnaryLane final : public Lane {
 public:
  // All references must outlive this object, and it all of its calls.
  UnaryLane(const std::shared_ptr<grpc::Channel>& channel, std::string path, const ClientOptions& options,
            grpc::CompletionQueue& queue, LaneOwner& owner)
      : stub_(channel), path_(std::move(path)), options_(options), queue_(queue), owner_(owner) {}

  void Send(const grpc::ByteBuffer& message, SteadyTime due) override;
  void Close() override { owner_.OnClosed(); }

 private:
  class Call;

  grpc::GenericStub stub_;
  const std::string path_;
  const ClientOptions& options_;
  grpc::CompletionQueue& queue_;
  LaneOwner& owner_;
};

}  // namespace ckn
