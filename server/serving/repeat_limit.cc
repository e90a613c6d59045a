#include "server/serving/repeat_limit.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ckn {

std::optional<std::string> RepeatLimit::Admit(absl::Time now) {
  constexpr absl::Duration kInterval = absl::Seconds(10);
  std::uint64_t left_out = 0;
  {
    const absl::MutexLock lock(&mu_);
    // The clock may have been set back.
    if (now >= last_ && now - last_ < kInterval) {
      ++left_out_;
      return std::nullopt;
    }
    last_ = now;
    left_out = std::exchange(left_out_, 0);
  }
  if (left_out == 0) return "";
  return absl::StrCat(" (and ", left_out, " more like it since the last such line)");
}

}  // namespace ckn
