#include "server/serving/rpc_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "server/base/quote.h"

namespace ckn {

RpcServer::~RpcServer() {
  if (server_ != nullptr) Shutdown(absl::InfinitePast());
  queues_.clear();  // before the server
}

bool RpcServer::Start(grpc::ServerBuilder& builder, int queues, const EventQueueOptions& options) {
  builder.RegisterAsyncGenericService(&service_);
  for (int i = 0; i < queues; ++i) {
    queues_.push_back(std::make_unique<EventQueue>(builder.AddCompletionQueue(), executor_, options));
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return false;
  for (const auto& queue : queues_) queue->Run([this, &queue = *queue] { Accept(queue); });
  return true;
}

void RpcServer::Shutdown(absl::Time deadline) { server_->Shutdown(absl::ToChronoTime(deadline)); }

void RpcServer::CancelCalls() { grpc_server_cancel_all_calls(server_->c_server()); }

void RpcServer::Accept(EventQueue& queue) {
  GrpcCall::Accept(service_, queue, access_, [this, &queue](const std::shared_ptr<GrpcCall>& call) {
    Accept(queue);
    if (const auto handler = handlers_.find(call->path()); handler != handlers_.end()) return handler->second(call);
    call->Finish(absl::UnimplementedError(absl::StrCat("method ", Quote(call->path()), ": not known")));
  });
}

}  // namespace ckn
