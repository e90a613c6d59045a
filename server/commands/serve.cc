// ckn serve: loads the models of a folder and answers calls until SIGTERM or SIGINT.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "grpc/grpc.h"
#include "server/base/cpu_quota.h"
#include "server/base/host_port.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/commands/settings.h"
#include "server/serving/grpc_log.h"
#include "server/serving/server.h"
#include "server/serving/stop_signals.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;

struct ServeFlags {
  std::string models;
  std::string listen = "127.0.0.1:8500";
  std::string http = "127.0.0.1:8501";
  int threads = 0;
  int queue = 0;  // 0: 64 for each thread
  int max_in_flight_mib = 1024;
  int max_images = 1024;
  int max_message_mib = 64;
  std::int64_t max_pixels = std::int64_t{1} << 24;
  int lame_duck_ms = 0;
  int drain_timeout_ms = 10000;
  int watch_seconds = 0;
  int max_connection_age_seconds = 0;
  bool model_control = false, reflection = false;
  int max_calls_per_connection = 1024, max_connections = 10000;
  int poll_us = 100;
  int reply_timeout_ms = 60000;
  std::string precision = PrecisionName(Precision::kFloat32);
  std::string log_level = "info";
  bool print_config = false;
  std::string access_log = "off";
  TlsFiles tls;
  std::string token_file, manager_token_file;
  int slow_ms = 0;
};

// gRPC has stopped to listen, and the program stops to be started anew.
std::atomic<bool> listener_lost = false;

void SetUpLog(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("ckn");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  LogGrpc(logger, [] {
    spdlog::error("gRPC has stopped to listen: stopping, to be started anew. Was the limit of open files reached?");
    listener_lost.store(true);
    kill(getpid(), SIGTERM);
  });
  spdlog::set_default_logger(std::move(logger));
}

// The models folder when none is given: the first of these that exists.
absl::StatusOr<std::string> FindModelsFolder() {
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder = binary.parent_path();
  const std::vector<std::string> candidates = {
      "models",
      (folder / "../../../models").lexically_normal().string(),      // build/release/bin in a source tree
      (folder / "../share/ckn/models").lexically_normal().string(),  // installed
  };
  for (const std::string& candidate : candidates) {
    if (fs::is_directory(candidate, error)) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("no models folder given with --models, and none of these exists: ",
                                          absl::StrJoin(candidates, ", ")));
}

absl::StatusOr<ServerOptions> OptionsFromFlags(const ServeFlags& flags) {
  ServerOptions options;
  options.models_folder = flags.models;
  if (options.models_folder.empty()) {
    absl::StatusOr<std::string> found = FindModelsFolder();
    if (!found.ok()) return found.status();
    options.models_folder = *std::move(found);
  }
  absl::StatusOr<HostPort> listen = ParseHostPort(flags.listen);
  if (!listen.ok()) return listen.status();
  options.listen = *std::move(listen);
  if (flags.http != "off") {
    absl::StatusOr<HostPort> http = ParseHostPort(flags.http);
    if (!http.ok()) return http.status();
    options.http = *std::move(http);
  }
  options.threads = flags.threads > 0 ? flags.threads : AvailableCpus();
  options.max_queue = flags.queue > 0 ? flags.queue : 64 * options.threads;
  options.max_in_flight_bytes = std::int64_t{flags.max_in_flight_mib} << 20;
  options.limits.max_images = flags.max_images;
  options.limits.max_message_bytes = std::int64_t{flags.max_message_mib} << 20;
  options.limits.max_pixels = flags.max_pixels;
  options.lame_duck = absl::Milliseconds(flags.lame_duck_ms);
  options.drain_timeout = absl::Milliseconds(flags.drain_timeout_ms);
  if (flags.watch_seconds > 0) options.watch_interval = absl::Seconds(flags.watch_seconds);
  if (flags.max_connection_age_seconds > 0)
    options.max_connection_age = absl::Seconds(flags.max_connection_age_seconds);
  options.model_control = flags.model_control;
  options.reflection = flags.reflection;
  options.max_calls_per_connection = flags.max_calls_per_connection;
  options.max_connections = flags.max_connections;
  options.poll = absl::Microseconds(flags.poll_us);
  options.reply_timeout = absl::Milliseconds(flags.reply_timeout_ms);
  if (flags.access_log != "off") {
    options.access_log = flags.access_log == "json" ? AccessLog::Format::kJson : AccessLog::Format::kText;
  }
  options.slow = absl::Milliseconds(flags.slow_ms);
  if (!flags.tls.certificate.empty()) options.tls = flags.tls;
  options.token_file = flags.token_file;
  options.manager_token_file = flags.manager_token_file;
  options.precision = ParsePrecision(flags.precision);
  options.version = CKN_VERSION;
  return options;
}

// A connection is an open file. The soft limit is for programs that use select().
void AllowOpenFiles() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Exit code of the program.
int Serve(const ServeFlags& flags) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed connection or log pipe is an error of that write only
  SetUpLog(flags.log_level);
  AllowOpenFiles();
  StopSignals signals;

  const absl::StatusOr<ServerOptions> options = OptionsFromFlags(flags);
  if (!options.ok()) {
    spdlog::error("{}", std::string(options.status().message()));
    return 1;
  }
  spdlog::info("ckn {}: models from {}", CKN_VERSION, options->models_folder);
  // For good: where a connection had to be cut, the last one to leave gRPC 1.51 waits up to ten seconds for its
  // threads.
  grpc_init();
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(*options);
  if (!server.ok()) {
    spdlog::error("cannot start: {}", std::string(server.status().message()));
    return 1;
  }

  signals.OnHangup([raw = server->get()] {
    spdlog::info("SIGHUP: looking at the models folder");
    raw->ReloadModels();
  });
  const int signal = signals.Wait();
  signals.OnHangup({});
  spdlog::info("{}: stopping; calls in flight have {} to finish, a second signal stops at once",
               signal == SIGINT ? "SIGINT" : "SIGTERM", absl::FormatDuration(options->drain_timeout));
  (*server)->Stop();
  // All calls are answered, and a late signal must not change the exit code: so nothing is destroyed any more.
  spdlog::shutdown();
  std::fflush(nullptr);
  _exit(listener_lost.load() ? 1 : 0);
}

// Throws CLI::ValidationError when settings contradict each other.
void CheckFlags(const ServeFlags& flags) {
  if (flags.max_message_mib > flags.max_in_flight_mib) {
    throw CLI::ValidationError("--max-message-mib",
                               absl::StrCat("got ", flags.max_message_mib, ", expected at most --max-in-flight-mib, ",
                                            flags.max_in_flight_mib, ", which counts requests and replies"));
  }
  if (flags.slow_ms > 0 && flags.access_log == "off") {
    throw CLI::ValidationError("--slow-ms", "has no effect without --access-log text or json");
  }
}

// For CLI11: an empty text when `text` is HOST:PORT.
std::string CheckHostPort(const std::string& text) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(text);
  return parsed.ok() ? std::string() : std::string(parsed.status().message());
}

}  // namespace

void AddServeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* const serve =
      app.add_subcommand("serve", "Answer gRPC calls with the models of a folder: ckn.v1 and Open Inference Protocol");
  serve->footer(
      "SIGTERM or SIGINT: health turns NOT_SERVING, calls in flight are finished, exit code 0.\n"
      "A second signal stops at once, exit code 1.\n"
      "SIGHUP: the models folder is looked at again. New and changed files are read, checked and warmed, then answer\n"
      "calls; a file that cannot be used is logged and counted, and what was there goes on serving.\n"
      "Every option can also be set in a file (--config) and in the environment, as CKN_ and its name in capitals with "
      "_\n"
      "for -: CKN_MAX_IMAGES. Options count before the environment, and that before the file. Names that are no\n"
      "option's are refused in both, but for the variables that Kubernetes makes of a Service named ckn.");

  serve
      ->add_option("--models", flags->models,
                   "Folder with *.ckn files, and NAME/VERSION/*.ckn where a model has versions (default: ./models, "
                   "else the source tree's, "
                   "else the installed one)")
      ->type_name("DIR");
  serve->add_option("--listen", flags->listen, "Address for gRPC; port 0: any free one, see the log")
      ->type_name("HOST:PORT")
      ->check(CheckHostPort)
      ->capture_default_str();
  serve->add_option("--http", flags->http, "Address for /metrics, /healthz and /readyz, or \"off\"")
      ->type_name("HOST:PORT")
      ->check([](const std::string& text) { return text == "off" ? std::string() : CheckHostPort(text); })
      ->capture_default_str();

  AddThreadsOption(*serve, flags->threads);
  serve
      ->add_option("--queue", flags->queue,
                   "Calls that may wait for a worker; more are answered with RESOURCE_EXHAUSTED (default: 64 a thread)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  serve
      ->add_option(
          "--max-in-flight-mib", flags->max_in_flight_mib,
          "Size of all requests that wait or are in work, of their replies, and of those that clients have not taken "
          "yet, in MiB; more requests are answered with RESOURCE_EXHAUSTED")
      ->type_name("MIB")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  serve->add_option("--max-images", flags->max_images, "Images in one call")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  serve->add_option("--max-message-mib", flags->max_message_mib, "Size of a request or a reply, in MiB")
      ->type_name("MIB")
      ->check(CLI::Range(1, 2047))
      ->capture_default_str();
  serve->add_option("--max-pixels", flags->max_pixels, "Height times width of one image")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31))
      ->capture_default_str();

  serve
      ->add_option(
          "--lame-duck-ms", flags->lame_duck_ms,
          "When stopping: milliseconds between NOT_SERVING and refusing new calls, for load balancers to notice")
      ->type_name("MS")
      ->check(CLI::Range(0, 3600000))
      ->capture_default_str();
  serve
      ->add_option("--drain-timeout-ms", flags->drain_timeout_ms,
                   "When stopping: milliseconds for the calls in flight; what is left then is cancelled")
      ->type_name("MS")
      ->check(CLI::Range(0, 3600000))
      ->capture_default_str();
  serve
      ->add_option("--watch-seconds", flags->watch_seconds,
                   "Look at the models folder every S seconds, as SIGHUP does; 0: only on SIGHUP")
      ->type_name("S")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  serve
      ->add_option("--max-connection-age-seconds", flags->max_connection_age_seconds,
                   "Ask clients to connect anew after about S seconds, so that they find added servers; 0: never")
      ->type_name("S")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  CLI::Option* const model_control =
      serve->add_flag("--model-control", flags->model_control,
                      "Let clients load and unload models (RepositoryModelLoad, RepositoryModelUnload)");

  serve->add_flag("--reflection", flags->reflection,
                  "Describe the services to clients that ask (grpcurl and the like)");
  serve
      ->add_option("--max-calls-per-connection", flags->max_calls_per_connection,
                   "Calls and streams at a time on one connection; more wait at the client")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  serve
      ->add_option("--max-connections", flags->max_connections,
                   "Connections to the gRPC port; more are ended within a second, the newest first")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  serve
      ->add_option("--poll-us", flags->poll_us,
                   "Microseconds for which the thread that serves the connections looks for the next call before it "
                   "sleeps, while nothing is computed: calls are answered sooner, for processor time; 0: not at all")
      ->type_name("US")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  serve
      ->add_option(
          "--reply-timeout-ms", flags->reply_timeout_ms,
          "For a client to take a reply of more than 16 KiB, or a stream's: milliseconds, and a second more for "
          "each MiB of it and each 16 MiB of all replies. Then its call is cancelled, so that it cannot hold "
          "memory for as long as it likes")
      ->type_name("MS")
      ->check(CLI::Range(1, 3600000))
      ->capture_default_str();

  AddPrecisionOption(*serve, flags->precision);

  CLI::Option* const certificate =
      serve->add_option("--tls-cert", flags->tls.certificate, "Certificate chain of the server; gRPC is then over TLS")
          ->type_name("PEM");
  CLI::Option* const key = serve->add_option("--tls-key", flags->tls.key, "Its private key")->type_name("PEM");
  certificate->needs(key);
  key->needs(certificate);
  serve
      ->add_option("--tls-client-ca", flags->tls.client_ca,
                   "Clients must show a certificate of one of these authorities. All three files are read again when "
                   "they change")
      ->type_name("PEM")
      ->needs(certificate);
  serve
      ->add_option("--token-file", flags->token_file,
                   "Callers must send \"authorization: Bearer TOKEN\" with one of the file's lines (health and "
                   "readiness excepted); read again when it changes")
      ->type_name("FILE");
  serve
      ->add_option("--manager-token-file", flags->manager_token_file,
                   "Tokens of those who may load and unload models; others may then not")
      ->type_name("FILE")
      ->needs(model_control);
  serve->add_option("--log-level", flags->log_level, "Least severe log line on stderr")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error"}))
      ->capture_default_str();

  CLI::Option* const access_log =
      serve->add_option("--access-log", flags->access_log, "A line on stdout for each call, with its times and status")
          ->type_name("FORMAT")
          ->check(CLI::IsMember({"off", "text", "json"}))
          ->capture_default_str();
  serve->add_option("--slow-ms", flags->slow_ms, "Only for calls that take at least MS milliseconds; 0: for all")
      ->type_name("MS")
      ->check(CLI::Range(0, 3600000))
      ->capture_default_str()
      ->needs(access_log);

  AllowSettings(*serve, flags->print_config);
  serve->callback([flags, serve, &exit_code] {
    CheckFlags(*flags);
    if (flags->print_config) {
      std::fputs(PrintSettings(*serve).c_str(), stdout);
    } else {
      exit_code = Serve(*flags);
    }
  });
}

}  // namespace ckn
