#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "server/serving/rpc_server.h"

namespace ckn {

// grpc.health.v1.Health: Check and Watch, for everyone. Thread-safe; must outlive the server that it is added to.
//
// gRPC's own needs the threads that RpcServer does without.
class Health {
 public:
  Health();
  ~Health();
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  void AddTo(RpcServer& server);

  // Of a service or a model; "": the server as a whole. Whoever watches it is told.
  void Set(const std::string& name, bool serving);
  // Everything is NOT_SERVING from now on; Set() has no effect any more.
  void StopServing();
  // Ends the calls that watch, which would not end by themselves, and those to come.
  void EndWatches();

 private:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;
  class Watch;

  void Check(GrpcCall& call, const std::string& name);
  [[nodiscard]] Status StatusOf(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  std::map<std::string, Status> statuses_ ABSL_GUARDED_BY(mu_);
  std::set<std::shared_ptr<Watch>> watches_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ckn
