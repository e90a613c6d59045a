#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/host_port.h"
#include "server/serving/access_log.h"
#include "server/serving/background_thread.h"
#include "server/serving/clock.h"
#include "server/serving/executor.h"
#include "server/serving/health.h"
#include "server/serving/http_endpoint.h"
#include "server/serving/inference_core.h"
#include "server/serving/metrics.h"
#include "server/serving/model_loader.h"
#include "server/serving/model_registry.h"
#include "server/serving/native_api.h"
#include "server/serving/open_inference.h"
#include "server/serving/repeat_limit.h"
#include "server/serving/tls.h"
#include "server/serving/token_file.h"

namespace grpc {
class Server;
}

namespace ckn {

struct ServerOptions {
  std::string models_folder;
  HostPort listen{.host = "127.0.0.1", .port = 8500};
  std::optional<HostPort> http;                              // not set: no HTTP port
  int threads = 1;                                           // workers that decode and compute
  int max_queue = 64;                                        // calls that wait for a worker
  std::int64_t max_in_flight_bytes = std::int64_t{1} << 30;  // of their requests, of those in work, and of replies
  int max_calls_per_connection = 1024;                       // more wait at the client
  int max_connections = 10000;                               // more are ended within a second
  // While nothing is computed, the thread that serves the connections looks for the next call for so long before it
  // sleeps.
  absl::Duration poll = absl::ZeroDuration();
  absl::Duration reply_timeout = absl::Minutes(1);  // see EventQueueOptions
  Precision precision = Precision::kFloat32;        // of the models' products
  InferenceLimits limits;                           // max_message_bytes applies to both directions
  absl::Duration lame_duck = absl::ZeroDuration();
  absl::Duration drain_timeout = absl::Seconds(10);
  absl::Duration watch_interval = absl::InfiniteDuration();  // between looks at the models folder
  bool model_control = false;                                // clients may load and unload models
  bool reflection = false;                                   // clients may ask for the services' descriptions
  // Clients are asked to connect anew after this time, so that they find servers that have been added.
  absl::Duration max_connection_age = absl::InfiniteDuration();
  std::optional<TlsFiles> tls;     // not set: clear text
  std::string token_file;          // empty: everyone may call
  std::string manager_token_file;  // empty: whoever may call may use model_control
  // Lines about calls go to stdout: of all, or of those that take at least `slow`.
  std::optional<AccessLog::Format> access_log;
  absl::Duration slow = absl::ZeroDuration();
  std::string version;
};

// The life of a server process: load and warm the models, listen, serve, stop without losing calls.
class Server {
 public:
  // Returns once calls are served; the health service then says SERVING. Fails when a model cannot be used or a port is
  // taken; messages say which.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // Stops, if Stop() was not called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The ports in use, also when 0 was asked for. http_port() is 0 without an HTTP port.
  [[nodiscard]] int grpc_port() const { return grpc_port_; }
  [[nodiscard]] int http_port() const;

  // Looks at the models folder again, in the background: see ModelLoader::Reload. What comes of it is logged.
  void ReloadModels();

  // Health turns NOT_SERVING and calls are still taken for `lame_duck`; then no new calls, and those in flight are
  // answered or, after `drain_timeout`, cancelled. Returns as soon as none is left. Call it once.
  void Stop();

 private:
  explicit Server(const ServerOptions& options);

  absl::Status OpenTokenFiles();
  absl::Status StartGrpc();
  OpenInference::ModelControl Control();
  // On the background thread:
  void Reload();
  void LogFailures(const std::vector<FailedModel>& failed);
  void ShowHealthOfModels();

  void OnReplyTimeout(std::string_view peer);
  void CountConnections();
  void ShutDownGrpc();

  const ServerOptions options_;
  const RealClock clock_;
  Metrics metrics_;
  std::atomic<bool> ready_{false};
  std::unique_ptr<HttpEndpoint> http_;
  ModelRegistry models_;
  ModelLoader loader_;  // of the background thread, once that runs
  std::atomic<bool> reload_waits_{false};
  std::set<std::string> logged_failures_;
  absl::Mutex health_mu_;
  std::set<std::string> healthy_models_ ABSL_GUARDED_BY(health_mu_);
  Executor executor_;
  const std::optional<AccessLog> access_log_;
  InferenceCore core_;
  NativeApi native_api_;
  OpenInference open_inference_;
  std::unique_ptr<TokenFile> callers_, managers_;
  std::unique_ptr<TlsCertificates> certificates_;
  Health health_;
  RepeatLimit reply_timeouts_, too_many_connections_;
  std::unique_ptr<RpcServer> rpc_;
  std::unique_ptr<BackgroundThread> background_, connections_;
  int grpc_port_ = 0;
  bool stopped_ = false;
};

}  // namespace ckn
