#include "server/serving/job_queue.h"

namespace ckn {
namespace {

constexpr std::uint64_t kOldestEvery = 4;

}  // namespace

void JobQueue::Push(std::shared_ptr<RunningJob> running) {
  const std::uint64_t number = pushed_++;
  sizes_.emplace(running->job.items - running->next, number);
  by_age_.emplace_hint(by_age_.end(), number, std::move(running));
}

JobQueue::ByAge::const_iterator JobQueue::Turn() const {
  return (taken_ + 1) % kOldestEvery == 0 ? by_age_.begin() : by_age_.find(sizes_.begin()->second);
}

JobQueue::Item JobQueue::Take() {
  const auto turn = Turn();
  ++taken_;
  Item item{.running = turn->second, .index = turn->second->next++};
  const std::size_t left = item.running->job.items - item.running->next;
  auto size = sizes_.extract({left + 1, turn->first});
  if (left == 0) {
    by_age_.erase(turn);
  } else {
    size.value().first = left;
    sizes_.insert(std::move(size));
  }
  return item;
}

}  // namespace ckn
