#include "server/serving/status_to_grpc.h"

#include <string>

namespace ckn {

grpc::Status StatusToGrpc(const absl::Status& status) {
  constexpr std::size_t kMaxMessageBytes = 2048;
  if (status.ok()) return grpc::Status::OK;
  // Both enumerations carry the canonical numbers; a code outside of them reads as UNKNOWN through code().
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message().substr(0, kMaxMessageBytes))};
}

}  // namespace ckn
