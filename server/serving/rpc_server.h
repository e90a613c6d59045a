#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/serving/event_queue.h"
#include "server/serving/executor.h"
#include "server/serving/grpc_call.h"

namespace ckn {

// gRPC's calls, by their path, from completion queues with one thread each.
//
// With one queue, a small call comes, is computed and answered without any other thread being woken. What gRPC's own
// threads do for its callback API hands each event from one to the next, which costs several times the transport
// itself; so everything is served here, health and reflection too, and no service is registered elsewhere.
class RpcServer {
 public:
  // Serves one call; runs on its queue's thread and must not block it.
  using Handler = std::function<void(std::shared_ptr<GrpcCall>)>;

  // `access` must live as long as this. `executor`, if any, borrows the queues' threads (Executor::Lender).
  explicit RpcServer(const CallerAccess& access = {}, Executor* executor = nullptr)
      : access_(access), executor_(executor) {}
  // Cancels what is left.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // Before Start(). The path is "/package.Service/Method". Others are UNIMPLEMENTED.
  void Add(std::string path, Handler handler) { handlers_.emplace(std::move(path), std::move(handler)); }

  // With what the builder says of ports and limits. False: gRPC cannot listen. Call it once.
  bool Start(grpc::ServerBuilder& builder, int queues = 1, const EventQueueOptions& options = {});

  // Takes no more calls; returns when all have ended, which those are made to that are left at `deadline`.
  void Shutdown(absl::Time deadline);
  // Makes those end that are there.
  void CancelCalls();

 private:
  void Accept(EventQueue& queue);

  const CallerAccess access_;
  Executor* const executor_;
  std::map<std::string, Handler, std::less<>> handlers_;
  grpc::AsyncGenericService service_;
  std::vector<std::unique_ptr<EventQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace ckn
