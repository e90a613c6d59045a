#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace ckn {

// The one place where a status of this program becomes a status on the wire: same code, same message. Messages are
// cut to 2 KiB, since gRPC drops a call whose trailers are larger than the client allows (8 KiB).
grpc::Status StatusToGrpc(const absl::Status& status);

}  // namespace ckn
