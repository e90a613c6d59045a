#include "client/load/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ckn {
namespace {

constexpr int kBits = 7;
constexpr std::size_t kBucketsPerOctave = std::size_t{1} << kBits;

std::size_t IndexOf(std::uint64_t value) {
  if (value < kBucketsPerOctave) return value;
  // Leaves the kBits + 1 leading bits of the value.
  const auto shift = static_cast<std::size_t>(std::bit_width(value) - (kBits + 1));
  return shift * kBucketsPerOctave + (value >> shift);
}

// By how many bits the values of a bucket are shifted to their index.
std::size_t ShiftOf(std::size_t index) { return index < kBucketsPerOctave ? 0 : index / kBucketsPerOctave - 1; }

// The smallest and the largest value of a bucket.
std::int64_t LowerBound(std::size_t index) {
  const std::size_t shift = ShiftOf(index);
  return static_cast<std::int64_t>((index - shift * kBucketsPerOctave) << shift);
}
std::int64_t UpperBound(std::size_t index) { return LowerBound(index) + ((std::int64_t{1} << ShiftOf(index)) - 1); }

}  // namespace

void LatencyHistogram::Record(std::int64_t nanoseconds) {
  const std::int64_t value = std::max<std::int64_t>(nanoseconds, 0);
  const std::size_t index = IndexOf(static_cast<std::uint64_t>(value));
  if (index >= counts_.size()) counts_.resize(index + 1);
  ++counts_[index];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
  ++count_;
}

void LatencyHistogram::Add(const LatencyHistogram& other) {
  if (other.count_ == 0) return;
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

std::int64_t LatencyHistogram::Quantile(double q) const {
  if (count_ == 0) return 0;
  const auto rank =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(q * static_cast<double>(count_))), 1, count_);
  std::int64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    if (below >= rank) return std::min(UpperBound(i), max_);
  }
  return max_;
}

std::vector<LatencyHistogram::Bucket> LatencyHistogram::Buckets() const {
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    buckets.push_back({.lower = LowerBound(i), .upper = UpperBound(i), .count = counts_[i]});
  }
  return buckets;
}

}  // namespace ckn
