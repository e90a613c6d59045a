#pragma once

#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.pb.h"
#include "server/serving/rpc_server.h"

namespace ckn {

// The answer to one request of server reflection. `services`: full names of those that the server has.
grpc::reflection::v1::ServerReflectionResponse Reflect(const grpc::reflection::v1::ServerReflectionRequest& request,
                                                       const std::vector<std::string>& services);

// Adds the services grpc.reflection.v1.ServerReflection and v1alpha, which tell of the first of them, ckn.v1.Inference
// and inference.GRPCInferenceService.
void AddReflectionServices(RpcServer& server);

}  // namespace ckn
