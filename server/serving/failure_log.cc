#include "server/serving/failure_log.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
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

FailureLog::FailureLog(const Clock& clock, absl::Duration interval) : clock_(clock), interval_(interval) {}

void FailureLog::Record(Method method, const absl::Status& status) {
  if (status.ok()) return;
  const absl::Time now = clock_.Now();
  std::uint64_t left_out = 0;
  {
    const absl::MutexLock lock(&mu_);
    // code() maps unknown numbers to UNKNOWN, so the index is in range.
    Kind& kind = kinds_[static_cast<std::size_t>(method)][static_cast<std::size_t>(status.code())];
    if (now - kind.last < interval_) {
      ++kind.left_out;
      return;
    }
    left_out = kind.left_out;
    kind = Kind{.last = now};
  }
  std::string line = absl::StrCat(std::string(MethodName(method)), " failed: ", absl::StatusCodeToString(status.code()),
                                  ": ", Printable(std::string_view(status.message().data(), status.message().size())));
  if (left_out > 0) absl::StrAppend(&line, " (and ", left_out, " more like it since the last such line)");
  spdlog::log(Level(status.code()), "{}", line);
}

}  // namespace ckn
