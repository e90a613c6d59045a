#include "server/serving/grpc_log.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "grpc/support/log.h"
#include "server/base/quote.h"
#include "server/serving/repeat_limit.h"
#include "spdlog/spdlog.h"

namespace ckn {
namespace {

class GrpcLog {
 public:
  void Set(std::shared_ptr<spdlog::logger> logger, std::function<void()> listener_lost) {
    const absl::MutexLock lock(&mu_);
    logger_ = std::move(logger);
    listener_lost_ = std::move(listener_lost);
  }

  void Write(const gpr_log_func_args& args) {
    const auto level = args.severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::warn
                       : args.severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::debug
                                                                : spdlog::level::trace;
    const std::string_view message = args.message;
    std::shared_ptr<spdlog::logger> logger;
    std::function<void()> lost;
    RepeatLimit* limit = nullptr;
    {
      const absl::MutexLock lock(&mu_);
      logger = logger_;
      if (message.substr(0, kLost.size()) == kLost) lost = std::exchange(listener_lost_, nullptr);
      limit = &limits_[{args.file, args.line}];
    }
    if (logger != nullptr && logger->should_log(level)) {
      if (const auto repeats = limit->Admit(absl::Now())) logger->log(level, "grpc: {}{}", OneLine(message), *repeats);
    }
    if (lost) lost();
  }

 private:
  // Of tcp_server_posix.cc, in front of the reason.
  static constexpr std::string_view kLost = "Failed accept";

  absl::Mutex mu_;
  std::shared_ptr<spdlog::logger> logger_ ABSL_GUARDED_BY(mu_);
  std::function<void()> listener_lost_ ABSL_GUARDED_BY(mu_);
  // By file and line: as many as there are places in gRPC's source.
  std::map<std::pair<std::string, int>, RepeatLimit> limits_ ABSL_GUARDED_BY(mu_);
};

// gRPC's threads may outlive static objects.
GrpcLog& TheLog() {
  static GrpcLog& log = *new GrpcLog;  // NOLINT(cppcoreguidelines-owning-memory)
  return log;
}

}  // namespace

void LogGrpc(std::shared_ptr<spdlog::logger> logger, std::function<void()> listener_lost) {
  TheLog().Set(std::move(logger), std::move(listener_lost));
  gpr_set_log_function([](gpr_log_func_args* args) { TheLog().Write(*args); });
}

}  // namespace ckn
