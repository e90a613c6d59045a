#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ckn {

// Durations in nanoseconds, counted in buckets whose width grows with the value, as HDR histograms do: below 128 ns
// each value has its own bucket, and from there on every factor of two is cut into 128 buckets of the same width. So a
// quantile is known to 1/128 (0.8 %) of its value whatever that is, and memory grows with the logarithm of the largest.
class LatencyHistogram {
 public:
  // Negative durations count as 0.
  void Record(std::int64_t nanoseconds);
  void Add(const LatencyHistogram& other);

  [[nodiscard]] std::int64_t count() const { return count_; }
  // Exact; 0 when there are no values.
  [[nodiscard]] std::int64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] std::int64_t max() const { return max_; }
  [[nodiscard]] double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  // A value that at least the part `q` of all values, 0 to 1, does not exceed: never less than the smallest such value,
  // and more by at most 1/128 of it. 0 when there are no values.
  [[nodiscard]] std::int64_t Quantile(double q) const;

  // Values from `lower` to `upper`, both included.
  struct Bucket {
    std::int64_t lower = 0, upper = 0, count = 0;
  };
  // Those that are not empty, smallest first.
  [[nodiscard]] std::vector<Bucket> Buckets() const;

 private:
  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0, min_ = 0, max_ = 0;
  double sum_ = 0;
};

}  // namespace ckn
