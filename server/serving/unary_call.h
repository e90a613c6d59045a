#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"
#include "server/serving/grpc_call.h"

namespace ckn {

// Reads the one request of a call, whose bytes `handle` may take; a client that sends none gets INVALID_ARGUMENT.
void ReadRequest(const std::shared_ptr<GrpcCall>& call, std::function<void(grpc::ByteBuffer* request)> handle);

// Ends a call that has one reply: with that, if all is well, else with the status.
void Reply(GrpcCall& call, const absl::Status& status, const google::protobuf::Message& response);

}  // namespace ckn
