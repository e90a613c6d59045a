#include "server/serving/server.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "ckn/v1/inference.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/resource_quota.h"
#include "inference/open_inference.grpc.pb.h"
#include "server/base/quote.h"
#include "server/base/status.h"
#include "server/serving/disconnect.h"
#include "server/serving/grpc_services.h"
#include "server/serving/listening_socket.h"
#include "server/serving/reflection.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace ckn {
namespace {

void LogModel(const ServedModel& model) {
  const v1::ModelInfo& info = model.info;
  spdlog::info("model {} version {}: input {}x{}x{}, {} features, {} classes, file {}, sha256 {}", Quote(info.name()),
               info.version(), info.height(), info.width(), info.channels(), info.features(), info.class_names_size(),
               Printable(model.path), info.sha256());
}

std::optional<AccessLog> MakeAccessLog(const ServerOptions& options) {
  if (!options.access_log) return std::nullopt;
  // A logger of its own: the lines are for programs, and stderr has the others.
  auto logger = std::make_shared<spdlog::logger>("access", std::make_shared<spdlog::sinks::stdout_sink_mt>());
  logger->set_pattern("%v");
  logger->flush_on(spdlog::level::info);
  return std::optional<AccessLog>(std::in_place, *options.access_log, options.slow,
                                  [logger](const std::string& line) { logger->info("{}", line); });
}

// Services have a health status of their own.
bool IsService(const std::string& name) {
  return name == v1::Inference::service_full_name() || name == inference::GRPCInferenceService::service_full_name();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(options));
  if (options.tls) {
    auto certificates = TlsCertificates::Open(*options.tls, server->clock_);
    CKN_RETURN_IF_ERROR(Annotate(certificates.status(), "TLS"));
    server->certificates_ = *std::move(certificates);
  }
  CKN_RETURN_IF_ERROR(Annotate(server->OpenTokenFiles(), "tokens"));
  if (options.http.has_value()) {
    // First, so that probes get an answer while models load.
    absl::StatusOr<std::unique_ptr<HttpEndpoint>> http =
        HttpEndpoint::Start(*options.http, {.metrics = [raw = server.get()] { return raw->metrics_.Text(); },
                                            .ready = [raw = server.get()] { return raw->ready_.load(); }});
    if (!http.ok()) return Annotate(http.status(), "HTTP port");
    server->http_ = *std::move(http);
    spdlog::info("HTTP: http://{}/metrics, /healthz, /readyz",
                 HostPort{.host = options.http->host, .port = server->http_port()}.ToString());
  }

  CKN_RETURN_IF_ERROR(server->loader_.LoadAll());
  for (const auto& [name, versions] : server->models_.Snapshot()->models) {
    for (const auto& [version, model] : versions) LogModel(*model);
  }

  server->background_ =
      std::make_unique<BackgroundThread>(options.watch_interval, [raw = server.get()] { raw->Reload(); });
  CKN_RETURN_IF_ERROR(Annotate(server->StartGrpc(), "gRPC port"));
  server->connections_ =
      std::make_unique<BackgroundThread>(absl::Seconds(1), [raw = server.get()] { raw->CountConnections(); });
  server->ShowHealthOfModels();
  server->ready_.store(true);
  server->metrics_.ready().Set(1);
  spdlog::info("serving gRPC{} on {} with {} worker threads, queue of {} calls",
               !options.tls                     ? ""
               : options.tls->client_ca.empty() ? " over TLS"
                                                : " over TLS with client certificates",
               HostPort{.host = options.listen.host, .port = server->grpc_port()}.ToString(), options.threads,
               options.max_queue);
  return server;
}

Server::Server(const ServerOptions& options)
    : options_(options),
      metrics_(options.version),
      loader_(options.models_folder, models_, metrics_, {}, options.precision),
      executor_({.threads = options.threads,
                 .max_queue = static_cast<std::size_t>(options.max_queue),
                 .max_bytes = options.max_in_flight_bytes},
                &metrics_.queue_length(), &metrics_.in_flight_bytes()),
      access_log_(MakeAccessLog(options)),
      core_(models_, executor_, metrics_, clock_, options.limits, access_log_ ? &*access_log_ : nullptr),
      native_api_(core_),
      open_inference_(
          core_, options.version, [this] { return ready_.load(); },
          options.model_control ? std::make_optional(Control()) : std::nullopt) {}

Server::~Server() {
  if (!stopped_) Stop();
}

int Server::http_port() const { return http_ == nullptr ? 0 : http_->port(); }

absl::Status Server::OpenTokenFiles() {
  if (!options_.token_file.empty()) {
    CKN_ASSIGN_OR_RETURN(callers_, TokenFile::Open(options_.token_file, clock_));
  }
  if (!options_.manager_token_file.empty()) {
    CKN_ASSIGN_OR_RETURN(managers_, TokenFile::Open(options_.manager_token_file, clock_));
  }
  if ((callers_ != nullptr || managers_ != nullptr) && !options_.tls) {
    spdlog::warn("tokens travel in clear text, since there is no TLS");
  }
  return absl::OkStatus();
}

absl::Status Server::StartGrpc() {
  grpc::ServerBuilder builder;
  const int message_bytes = static_cast<int>(options_.limits.max_message_bytes);
  builder.SetMaxReceiveMessageSize(message_bytes);
  builder.SetMaxSendMessageSize(message_bytes);
  // gRPC unpacks a message whole before it looks at its size: a megabyte may become a gigabyte. Images are compressed
  // in themselves.
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  // Of messages that are still being received, of which the executor does not know yet: as much again, and one more.
  grpc::ResourceQuota quota("ckn");
  quota.Resize(static_cast<std::size_t>(options_.max_in_flight_bytes + options_.limits.max_message_bytes));
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options_.max_calls_per_connection);
  // Otherwise a second server on the same port starts without an error and takes half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients may ping every 10 s, also between calls; the default answers that with GOAWAY "too_many_pings".
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  if (options_.max_connection_age < absl::InfiniteDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               static_cast<int>(absl::ToInt64Milliseconds(options_.max_connection_age)));
    // Calls that are under way then have as long as at the end of the server.
    builder.AddChannelArgument(
        GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
        static_cast<int>(std::min(absl::ToInt64Milliseconds(options_.drain_timeout), std::int64_t{1} << 30)));
  }
  const auto credentials = certificates_ != nullptr ? certificates_->Credentials() : grpc::InsecureServerCredentials();
  builder.AddListeningPort(options_.listen.ToString(), credentials, &grpc_port_);
  rpc_ = std::make_unique<RpcServer>(CallerAccess{callers_.get(), managers_.get()}, &executor_);
  health_.AddTo(*rpc_);
  AddNativeService(native_api_, core_, *rpc_);
  AddOpenInferenceService(open_inference_, core_, *rpc_);
  if (options_.reflection) AddReflectionServices(*rpc_);
  // One thread receives and sends for so many that compute.
  constexpr int kWorkersPerQueue = 8;
  const bool started = rpc_->Start(builder, 1 + (options_.threads - 1) / kWorkersPerQueue,
                                   {.poll = options_.poll,
                                    .reply_timeout = options_.reply_timeout,
                                    .on_reply_timeout = [this](std::string_view peer) { OnReplyTimeout(peer); },
                                    .disconnect = [this](std::string_view peer) { Disconnect(grpc_port_, peer); }});
  if (!started || grpc_port_ <= 0) {
    rpc_.reset();
    // gRPC only says that it failed; the operating system says why.
    CKN_RETURN_IF_ERROR(ListeningSocket::Open(options_.listen).status());
    return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", options_.listen.ToString()));
  }
  for (const char* const service :
       {"", v1::Inference::service_full_name(), inference::GRPCInferenceService::service_full_name()}) {
    health_.Set(service, true);
  }
  return absl::OkStatus();
}

OpenInference::ModelControl Server::Control() {
  const auto run = [this](const std::string& name, InferenceCore::Done done,
                          absl::Status (ModelLoader::*change)(const std::string&)) {
    background_->Run([this, name, done = std::move(done), change] {
      const absl::Status status = (loader_.*change)(name);
      // Those that fail are in the failure log, which a flood of them does not flood.
      if (status.ok()) {
        spdlog::info("{} model {}, as a client asked", change == &ModelLoader::Load ? "loaded" : "unloaded",
                     Quote(name));
      }
      ShowHealthOfModels();
      done(status);
    });
  };
  return {.load = [run](const std::string& name,
                        InferenceCore::Done done) { run(name, std::move(done), &ModelLoader::Load); },
          .unload = [run](const std::string& name,
                          InferenceCore::Done done) { run(name, std::move(done), &ModelLoader::Unload); }};
}

void Server::ReloadModels() {
  // One that has not begun will see what has changed until now.
  if (reload_waits_.exchange(true)) return;
  background_->Run([this] {
    reload_waits_.store(false);
    Reload();
  });
}

void Server::Reload() {
  const absl::StatusOr<ModelLoader::Changes> changes = loader_.Reload();
  if (!changes.ok()) return LogFailures({FailedModel{{}, 0, std::string(changes.status().message())}});
  for (const std::string& model : changes->loaded) spdlog::info("loaded model {}", model);
  for (const std::string& model : changes->removed) spdlog::info("model {} is gone", model);
  LogFailures(changes->failed);
  ShowHealthOfModels();
}

// Once, not every time that the folder is looked at.
void Server::LogFailures(const std::vector<FailedModel>& failed) {
  std::set<std::string> reasons;
  for (const FailedModel& failure : failed) {
    if (reasons.insert(failure.reason).second && !logged_failures_.contains(failure.reason)) {
      spdlog::error("cannot load: {}; what was there goes on serving", Printable(failure.reason));
    }
  }
  logged_failures_ = std::move(reasons);
}

void Server::ShowHealthOfModels() {
  const absl::MutexLock lock(&health_mu_);
  std::set<std::string> healthy;
  for (const auto& [name, versions] : models_.Snapshot()->models) healthy.insert(name);
  for (const std::string& name : healthy_models_) {
    if (!healthy.contains(name) && !IsService(name)) health_.Set(name, false);
  }
  for (const std::string& name : healthy) {
    if (!IsService(name)) health_.Set(name, true);
  }
  healthy_models_ = std::move(healthy);
}

void Server::Stop() {
  stopped_ = true;
  ready_.store(false);
  metrics_.ready().Set(0);
  health_.StopServing();
  if (rpc_ != nullptr) {
    if (options_.lame_duck > absl::ZeroDuration()) {
      spdlog::info("not ready any more; taking calls for another {}", absl::FormatDuration(options_.lame_duck));
      absl::SleepFor(options_.lame_duck);
    }
    ShutDownGrpc();
    spdlog::info("stopped; calls taken since the start: {}", core_.calls_begun());
  }
  background_.reset();
  connections_.reset();
  executor_.Drain();
  rpc_.reset();
  http_.reset();
}

void Server::OnReplyTimeout(std::string_view peer) {
  metrics_.CountReplyTimeout();
  const std::optional<std::string> repeats = reply_timeouts_.Admit(clock_.Now());
  if (!repeats) return;
  spdlog::warn("{} did not take a reply in time (--reply-timeout-ms); the call was cancelled{}", Printable(peer),
               *repeats);
}

void Server::CountConnections() {
  const ConnectionCount count = LimitConnections(grpc_port_, options_.max_connections);
  metrics_.SetConnections(count.open);
  if (count.ended == 0) return;
  if (const std::optional<std::string> repeats = too_many_connections_.Admit(clock_.Now())) {
    spdlog::warn("{} connections, {} more than --max-connections allows, which were ended{}", count.open, count.ended,
                 *repeats);
  }
}

void Server::ShutDownGrpc() {
  health_.EndWatches();
  absl::Notification done;
  const absl::Time deadline = absl::Now() + options_.drain_timeout;
  std::thread shutdown([&] {
    // A little later, for the log to tell first what is cancelled then.
    rpc_->Shutdown(deadline + absl::Milliseconds(10));
    done.Notify();
  });
  // A stream that its client leaves open would be waited for until the drain timeout. So once no inference call has
  // been seen, and no reply waited for its client, for this long, what is left is cancelled. A request that is still
  // being received counts as nothing, and has this time; so has the end of a call whose reply was taken just now.
  constexpr absl::Duration kQuiet = absl::Seconds(1);
  std::optional<std::int64_t> begun_when_quiet;  // at the last look, if it was quiet then
  bool late = false;
  while (!done.WaitForNotificationWithTimeout(late ? kQuiet : std::min(kQuiet, deadline - absl::Now()))) {
    const std::int64_t begun = core_.calls_begun();
    if (!late && absl::Now() >= deadline) {
      late = true;
      spdlog::warn("{} have passed (--drain-timeout-ms): cancelling {} calls, and {} bytes of replies not taken yet",
                   absl::FormatDuration(options_.drain_timeout), core_.calls_in_flight(), executor_.held());
      continue;
    }
    const bool quiet = core_.calls_in_flight() == 0 && executor_.held() == 0;
    if (quiet && begun == begun_when_quiet) rpc_->CancelCalls();
    begun_when_quiet = quiet ? std::make_optional(begun) : std::nullopt;
    // gRPC ends no connection before the socket has taken what is written already.
    if (absl::Now() < deadline + kQuiet) continue;
    if (const int ended = Disconnect(grpc_port_); ended > 0) {
      spdlog::warn("{} connections did not take their last bytes in time and were ended", ended);
    }
  }
  shutdown.join();
}

}  // namespace ckn
