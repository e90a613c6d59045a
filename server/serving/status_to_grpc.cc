#include "server/serving/status_to_grpc.h"

#include <string>

#include "server/base/utf8.h"

namespace ckn {

grpc::Status StatusToGrpc(const absl::Status& status) {
  constexpr std::size_t kMaxMessageBytes = 2048;
  if (status.ok()) return grpc::Status::OK;
  // Both enumerations carry the canonical numbers; a code outside of them reads as UNKNOWN through code().
  const std::string message(status.message());
  return {static_cast<grpc::StatusCode>(status.code()), std::string(Utf8Prefix(message, kMaxMessageBytes))};
}

}  // namespace ckn
