#include "server/serving/failure_log.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/base/quote.h"
#include "spdlog/spdlog.h"

namespace ckn {
namespace {

spdlog::level::level_enum Level(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      return spdlog::level::err;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return spdlog::level::warn;
    default:
      return spdlog::level::info;
  }
}

}  // namespace

void FailureLog::Record(Method method, const absl::Status& status) {
  if (status.ok()) return;
  // code() maps unknown numbers to UNKNOWN, so the index is in range.
  RepeatLimit& limit = limits_[static_cast<std::size_t>(method)][static_cast<std::size_t>(status.code())];
  const std::optional<std::string> repeats = limit.Admit(clock_.Now());
  if (!repeats) return;
  spdlog::log(Level(status.code()), "{} failed: {}: {}{}", MethodName(method), absl::StatusCodeToString(status.code()),
              Printable(std::string_view(status.message().data(), status.message().size())), *repeats);
}

}  // namespace ckn
