#include "server/serving/access_log.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "server/base/quote.h"

namespace ckn {
namespace {

std::string Time(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone()); }

double Milliseconds(double seconds) { return 1e3 * seconds; }

// To a microsecond: more is noise.
double Rounded(double seconds) { return static_cast<double>(std::llround(1e6 * seconds)) / 1e3; }

}  // namespace

std::string AccessText(const AccessRecord& record) {
  std::string line = absl::StrFormat("time=%s method=%s status=%s", Time(record.end),
                                     std::string(MethodName(record.method)), absl::StatusCodeToString(record.code));
  const auto add = [&line](const char* key, std::string_view value) {
    if (value.empty()) return;
    absl::StrAppendFormat(&line, " %s=\"%s\"", key, absl::StrReplaceAll(Printable(value), {{"\"", "\\\""}}));
  };
  add("model", record.model);
  add("version", record.version);
  absl::StrAppendFormat(&line, " images=%d bytes=%d total_ms=%.3f queue_ms=%.3f decode_ms=%.3f compute_ms=%.3f",
                        record.images, record.request_bytes, Milliseconds(record.total), Milliseconds(record.queue),
                        Milliseconds(record.decode), Milliseconds(record.compute));
  add("id", record.request_id);
  add("traceparent", record.traceparent);
  add("peer", record.peer);
  return line;
}

std::string AccessJson(const AccessRecord& record) {
  nlohmann::ordered_json json;
  json["time"] = Time(record.end);
  json["method"] = MethodName(record.method);
  json["status"] = absl::StatusCodeToString(record.code);
  const auto add = [&json](const char* key, std::string_view value) {
    if (!value.empty()) json[key] = value;
  };
  add("model", record.model);
  add("version", record.version);
  json["images"] = record.images;
  json["bytes"] = record.request_bytes;
  json["total_ms"] = Rounded(record.total);
  json["queue_ms"] = Rounded(record.queue);
  json["decode_ms"] = Rounded(record.decode);
  json["compute_ms"] = Rounded(record.compute);
  add("id", record.request_id);
  add("traceparent", record.traceparent);
  add("peer", record.peer);
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

void AccessLog::Record(const AccessRecord& record) const {
  if (record.total < slower_than_) return;
  sink_(format_ == Format::kJson ? AccessJson(record) : AccessText(record));
}

}  // namespace ckn
