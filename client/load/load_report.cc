#include "client/load/load_report.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/quote.h"

namespace ckn {
namespace {

using Json = nlohmann::ordered_json;

double Milliseconds(std::int64_t nanoseconds) { return 1e-6 * static_cast<double>(nanoseconds); }

double PerSecond(std::int64_t count, const LoadResult& result) {
  return result.seconds > 0 ? static_cast<double>(count) / result.seconds : 0;
}

std::string Counted(std::int64_t count, const char* singular) {
  return absl::StrCat(count, " ", singular, count == 1 ? "" : "s");
}

std::string Loop(const LoadPlan& plan) {
  if (!plan.rate) return absl::StrCat("closed loop, ", plan.in_flight, " in flight");
  return absl::StrCat("open loop, ", *plan.rate, " calls/s ",
                      plan.arrivals == Arrivals::kConstant ? "evenly" : "at random");
}

const char* ProtocolName(LoadProtocol protocol) { return protocol == LoadProtocol::kNative ? "ckn" : "oip"; }
const char* MethodName(LoadMethod method) { return method == LoadMethod::kClassify ? "classify" : "encode"; }

Json LatencyJson(const LatencyHistogram& latency) {
  return {{"mean_ms", 1e-6 * latency.mean()},
          {"min_ms", Milliseconds(latency.min())},
          {"p50_ms", Milliseconds(latency.Quantile(0.5))},
          {"p90_ms", Milliseconds(latency.Quantile(0.9))},
          {"p99_ms", Milliseconds(latency.Quantile(0.99))},
          {"p99_9_ms", Milliseconds(latency.Quantile(0.999))},
          {"max_ms", Milliseconds(latency.max())}};
}

// Failures are pairs of a number and a code. "" when there are none.
std::string FailureText(const std::vector<std::pair<std::int64_t, absl::StatusCode>>& failures, std::int64_t all,
                        const char* what) {
  if (failures.empty()) return {};
  std::int64_t sum = 0;
  std::vector<std::string> parts;
  for (const auto& [count, code] : failures) {
    sum += count;
    parts.push_back(absl::StrCat(count, " ", absl::StatusCodeToString(code)));
  }
  return absl::StrCat(sum, " of ", all, " ", what, " failed: ", absl::StrJoin(parts, ", "));
}

}  // namespace

std::string LoadTable(const LoadPlan& plan, const LoadResult& result) {
  std::string out = absl::StrFormat(
      "%s%s over %s, %s a call, %s, %s, %.1f s\n", MethodName(plan.request.method),
      plan.request.stream ? " in a stream" : "",
      plan.request.protocol == LoadProtocol::kNative ? "ckn.v1" : "the Open Inference Protocol",
      Counted(plan.request.batch, "image"), Loop(plan), Counted(plan.connections, "connection"), result.seconds);
  absl::StrAppendFormat(&out, "%-20s %10s %10s %10s %9s %9s %9s %9s %9s\n", "CODE", "CALLS", "CALLS/S", "IMAGES/S",
                        "P50 MS", "P90 MS", "P99 MS", "P99.9 MS", "MAX MS");
  for (const auto& [code, calls] : result.calls) {
    const LatencyHistogram& latency = calls.latency;
    const std::string images =
        code == absl::StatusCode::kOk ? absl::StrFormat("%.1f", PerSecond(result.images[0], result)) : "-";
    absl::StrAppendFormat(&out, "%-20s %10d %10.1f %10s %9.3f %9.3f %9.3f %9.3f %9.3f\n",
                          absl::StatusCodeToString(code), latency.count(), PerSecond(latency.count(), result), images,
                          Milliseconds(latency.Quantile(0.5)), Milliseconds(latency.Quantile(0.9)),
                          Milliseconds(latency.Quantile(0.99)), Milliseconds(latency.Quantile(0.999)),
                          Milliseconds(latency.max()));
  }
  for (const auto& [code, calls] : result.calls) {
    if (code == absl::StatusCode::kOk) continue;
    absl::StrAppend(&out, absl::StatusCodeToString(code), ", the first: ", Printable(calls.message), "\n");
  }
  if (plan.rate) {
    absl::StrAppendFormat(&out, "calls were sent late by %.3f ms (p50), %.3f ms (p99), %.3f ms (max)\n",
                          Milliseconds(result.lateness.Quantile(0.5)), Milliseconds(result.lateness.Quantile(0.99)),
                          Milliseconds(result.lateness.max()));
  }
  absl::StrAppendFormat(&out, "this client used %.2f CPUs\n",
                        result.seconds > 0 ? result.cpu_seconds / result.seconds : 0);
  return out;
}

std::string LoadJson(const LoadPlan& plan, const LoadResult& result) {
  Json codes = Json::object();
  for (const auto& [code, calls] : result.calls) {
    Json entry = {{"calls", calls.latency.count()}, {"message", calls.message}};
    entry.update(LatencyJson(calls.latency));
    Json histogram = Json::array();
    for (const LatencyHistogram::Bucket& bucket : calls.latency.Buckets()) {
      histogram.push_back({bucket.lower, bucket.upper, bucket.count});
    }
    entry["histogram_ns"] = std::move(histogram);
    codes[absl::StatusCodeToString(code)] = std::move(entry);
  }
  Json images = Json::object();
  for (std::size_t code = 0; code < result.images.size(); ++code) {
    if (result.images[code] == 0) continue;
    images[absl::StatusCodeToString(static_cast<absl::StatusCode>(code))] = result.images[code];
  }
  Json json = {{"server", plan.server},
               {"protocol", ProtocolName(plan.request.protocol)},
               {"method", MethodName(plan.request.method)},
               {"stream", plan.request.stream},
               {"model", plan.request.model},
               {"version", plan.request.model_version},
               {"images_per_call", plan.request.batch},
               {"connections", plan.connections},
               {"threads", plan.threads},
               {"loop", plan.rate ? "open" : "closed"},
               {"in_flight", plan.in_flight},
               {"rate", nullptr},
               {"arrivals", nullptr},
               {"seconds", result.seconds},
               {"calls", result.Count()},
               {"calls_per_second", PerSecond(result.Count(absl::StatusCode::kOk), result)},
               {"images_per_second", PerSecond(result.images[0], result)},
               {"codes", std::move(codes)},
               {"images", std::move(images)},
               {"late", nullptr},
               {"client_cpu_seconds", result.cpu_seconds}};
  if (plan.rate) {
    json["rate"] = *plan.rate;
    json["arrivals"] = plan.arrivals == Arrivals::kConstant ? "constant" : "poisson";
    json["late"] = LatencyJson(result.lateness);
  }
  // Messages come from a server and may hold any bytes; JSON only UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string LoadFailures(const LoadResult& result, const std::set<absl::StatusCode>& tolerated) {
  const auto fails = [&](absl::StatusCode code) { return code != absl::StatusCode::kOk && !tolerated.contains(code); };
  std::vector<std::pair<std::int64_t, absl::StatusCode>> calls, images;
  for (const auto& [code, of_code] : result.calls) {
    if (fails(code)) calls.emplace_back(of_code.latency.count(), code);
  }
  std::int64_t all_images = 0;
  for (std::size_t i = 0; i < result.images.size(); ++i) {
    all_images += result.images[i];
    const auto code = static_cast<absl::StatusCode>(i);
    if (result.images[i] > 0 && fails(code)) images.emplace_back(result.images[i], code);
  }
  std::vector<std::string> texts = {FailureText(calls, result.Count(), "calls"),
                                    FailureText(images, all_images, "images of good calls")};
  std::erase(texts, "");
  return absl::StrJoin(texts, "; ");
}

}  // namespace ckn
