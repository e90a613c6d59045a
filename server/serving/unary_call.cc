#include "server/serving/unary_call.h"

#include <utility>

#include "server/serving/wire_message.h"

namespace ckn {
namespace {

// When a full queue is worth another try.
constexpr const char* kRetryAfterMs = "100";

}  // namespace

void ReadRequest(const std::shared_ptr<GrpcCall>& call, std::function<void(grpc::ByteBuffer* request)> handle) {
  const auto request = std::make_shared<grpc::ByteBuffer>();
  call->Read(request.get(), [call, request, handle = std::move(handle)](bool ok) {
    if (!ok) return call->Finish(absl::InvalidArgumentError("no request came"));
    handle(request.get());
  });
}

void Reply(GrpcCall& call, const absl::Status& status, const google::protobuf::Message& response) {
  grpc::ByteBuffer reply;
  const absl::Status result = status.ok() ? SerializeMessage(response, &reply) : status;
  if (result.ok()) return call.WriteAndFinish(reply);
  // Understood by gRPC's own retries, where the client has them.
  if (absl::IsResourceExhausted(result)) call.AddTrailer("grpc-retry-pushback-ms", kRetryAfterMs);
  call.Finish(result);
}

}  // namespace ckn
