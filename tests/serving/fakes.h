#pragma once

#include <atomic>
#include <limits>

#include "absl/time/time.h"
#include "server/serving/clock.h"
#include "server/serving/inference_core.h"

namespace ckn::testing {

// Stands still until told otherwise.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time now = absl::FromUnixSeconds(1'700'000'000)) : now_(now) {}

  [[nodiscard]] absl::Time Now() const override { return now_; }
  void Advance(absl::Duration duration) { now_ += duration; }

 private:
  absl::Time now_;
};

class FakeCall final : public CallContext {
 public:
  [[nodiscard]] bool Cancelled() const override { return asked_.fetch_add(1) >= cancel_after; }
  [[nodiscard]] absl::Time Deadline() const override { return deadline; }

  // How often Cancelled() says no before it says yes.
  int cancel_after = std::numeric_limits<int>::max();
  absl::Time deadline = absl::InfiniteFuture();

 private:
  mutable std::atomic<int> asked_{0};
};

}  // namespace ckn::testing
