#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/serving/grpc_call.h"

namespace ckn {

// The answer to one request of server reflection. `services`: full names of those that the server has.
grpc::reflection::v1::ServerReflectionResponse Reflect(const grpc::reflection::v1::ServerReflectionRequest& request,
                                                       const std::vector<std::string>& services);

// The services grpc.reflection.v1.ServerReflection and v1alpha, which tell of the first of them, ckn.v1.Inference and
// inference.GRPCInferenceService. What `access` names must outlive the server they are registered with.
std::vector<std::unique_ptr<grpc::Service>> MakeReflectionServices(const CallerAccess& access);

}  // namespace ckn
