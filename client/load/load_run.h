#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/load/arrival_schedule.h"
#include "client/load/latency_histogram.h"
#include "client/load/load_requests.h"
#include "grpcpp/support/byte_buffer.h"

namespace ckn {

struct LoadPlan {
  std::string server;
  ClientOptions client;  // its timeout is that of each call
  int connections = 1;   // each one of its own, also to the same address; calls are spread over them evenly
  int threads = 1;       // that receive; at most as many as connections
  RequestOptions request;
  // Closed loop, when not set: `in_flight` calls, and whenever one ends the next is sent; after a call that failed, 10
  // ms later. Open loop: calls are sent at the times of an ArrivalSchedule with this many a second.
  std::optional<double> rate = std::nullopt;
  Arrivals arrivals = Arrivals::kConstant;
  std::uint64_t seed = 1;
  // Open loop: when so many wait for their end, the next is sent when one has ended. Its latency counts from when it
  // was to be sent all the same.
  int in_flight = 1;
  // The load ends with whichever comes first; calls in flight then are waited for.
  absl::Duration duration = absl::InfiniteDuration();
  std::int64_t calls = std::numeric_limits<std::int64_t>::max();
  // Codes of calls that may fail before the load begins.
  std::set<absl::StatusCode> tolerated = {};
};

struct LoadResult {
  struct Calls {
    LatencyHistogram latency;  // from when the call was to be sent to its end
    std::string message;       // of the first of them
  };
  std::map<absl::StatusCode, Calls> calls;
  CodeCounts images{};        // of calls that succeeded
  double seconds = 0;         // from the first call that was to be sent to the last end
  LatencyHistogram lateness;  // of sending
  double cpu_seconds = 0;     // that this process used meanwhile

  [[nodiscard]] std::int64_t Count() const;
  [[nodiscard]] std::int64_t Count(absl::StatusCode code) const;
};

// Sends `requests`, at least one, in turn. Before the clock starts, each connection makes one call; the error of such a
// call is returned, unless it is tolerated. Blocks until the end.
absl::StatusOr<LoadResult> RunLoad(const LoadPlan& plan, const std::vector<grpc::ByteBuffer>& requests);

}  // namespace ckn
