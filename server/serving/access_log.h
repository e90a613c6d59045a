#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/serving/metrics.h"

namespace ckn {

// One finished call. Times in seconds; decode and compute are sums over the images.
struct AccessRecord {
  absl::Time end;
  Method method = Method::kClassify;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view request_id, traceparent, peer;  // empty: not known
  std::string_view model, version;                 // that answered, else what was asked for
  int images = 0;
  std::int64_t request_bytes = 0;
  double total = 0, queue = 0, decode = 0, compute = 0;
};

// "key=value" pairs, or one JSON object; without the end of the line. What clients sent is escaped.
std::string AccessText(const AccessRecord& record);
std::string AccessJson(const AccessRecord& record);

// A line for each call, or for the slow ones. Thread-safe if the sink is.
class AccessLog {
 public:
  enum class Format { kText, kJson };
  // Calls that take at least `slower_than` are told to `sink`.
  AccessLog(Format format, absl::Duration slower_than, std::function<void(const std::string& line)> sink)
      : format_(format), slower_than_(absl::ToDoubleSeconds(slower_than)), sink_(std::move(sink)) {}

  void Record(const AccessRecord& record) const;

 private:
  const Format format_;
  const double slower_than_;
  const std::function<void(const std::string& line)> sink_;
};

}  // namespace ckn
