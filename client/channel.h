#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"
#include "grpcpp/grpcpp.h"

// What the client library and the load generator do alike with gRPC.
namespace ckn {

// `arguments`: more settings of the channel.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& server, const ClientOptions& options,
                                           grpc::ChannelArguments arguments = {});

// Everything of a new call but its deadline.
void PrepareContext(const ClientOptions& options, grpc::ClientContext& context);

absl::Status StatusFromGrpc(const grpc::Status& status);

}  // namespace ckn
