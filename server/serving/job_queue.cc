#include "server/serving/job_queue.h"

#include <algorithm>

namespace ckn {
namespace {

constexpr std::uint64_t kOldestEvery = 4;

// Of the items that are taken together. To take some costs about a microsecond, and who comes next waits for them.
constexpr absl::Duration kGrain = absl::Microseconds(100);

constexpr absl::Duration kMostCounted = absl::Microseconds(200);

// How many of the `left` items to take.
std::size_t Grain(absl::Duration estimate, std::size_t left, std::size_t workers) {
  const double fit = absl::FDivDuration(kGrain, std::max(estimate, absl::Microseconds(1)));
  const std::size_t share = left / (2 * std::max<std::size_t>(workers, 1));
  return std::max<std::size_t>(std::min(static_cast<std::size_t>(fit), share), 1);
}

absl::Duration Work(const Job& job, std::size_t items) {
  return static_cast<std::int64_t>(items) * std::min(job.estimate, kMostCounted);
}

}  // namespace

void JobQueue::Push(std::shared_ptr<RunningJob> running) {
  const std::uint64_t number = pushed_++;
  const std::size_t left = running->job.items - running->next;
  work_ += Work(running->job, left);
  sizes_.emplace(left, number);
  by_age_.emplace_hint(by_age_.end(), number, std::move(running));
}

JobQueue::ByAge::const_iterator JobQueue::Turn() const {
  return (taken_ + 1) % kOldestEvery == 0 ? by_age_.begin() : by_age_.find(sizes_.begin()->second);
}

JobQueue::Items JobQueue::Take(std::size_t workers) {
  const auto turn = Turn();
  ++taken_;
  RunningJob& running = *turn->second;
  const std::size_t left = running.job.items - running.next;
  const std::size_t count = Grain(running.job.estimate, left, workers);
  Items items{.running = turn->second, .begin = running.next, .end = running.next + count};
  running.next += count;
  work_ -= Work(running.job, count);
  auto size = sizes_.extract({left, turn->first});
  if (left == count) {
    by_age_.erase(turn);
  } else {
    size.value().first = left - count;
    sizes_.insert(std::move(size));
  }
  return items;
}

}  // namespace ckn
