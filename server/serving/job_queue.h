#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/time/time.h"

namespace ckn {

// The work of one call: `items` independent pieces, at least one. run(i) is called once for each i in [0, items),
// possibly by several workers at a time; then done() once, by the worker that finished last. Neither may throw.
struct Job {
  std::size_t items = 1;
  std::int64_t bytes = 0;  // that the job keeps in memory until it is done
  // Waits for room in the queue instead of being refused, and leaves half of it to those that do not. For work that is
  // bounded in another way.
  bool patient = false;
  // About how long an item takes. Short ones are taken several at a time, and a short job may be left to a Lender.
  absl::Duration estimate = absl::InfiniteDuration();
  std::function<void(std::size_t item)> run;
  std::function<void()> done;
};

// A job some of whose items may have run.
struct RunningJob {
  explicit RunningJob(Job j) : job(std::move(j)), left(job.items) {}
  const Job job;
  std::size_t next = 0;           // first item that nobody has taken
  std::atomic<std::size_t> left;  // items that have not run to their end
};

// The jobs with items that nobody has taken, and whose turn it is: of the one with the fewest such items, of several
// the oldest. So a short call does not wait for a long one to end, and calls of one size end one after the other, not
// all together at the end, after which their clients would leave the workers without work for a while. Every fourth
// turn is the oldest job's, so that a long one gets on however many short ones come. Not thread-safe.
class JobQueue {
 public:
  // Items [begin, end) of a job.
  struct Items {
    std::shared_ptr<RunningJob> running;
    std::size_t begin = 0, end = 0;
  };

  [[nodiscard]] bool empty() const { return by_age_.empty(); }
  [[nodiscard]] std::size_t size() const { return by_age_.size(); }
  // About how long all items take that nobody has taken; of each no more than 200 us are counted, so that a wrong
  // estimate has no large effect.
  [[nodiscard]] absl::Duration work() const { return work_; }

  void Push(std::shared_ptr<RunningJob> running);
  // The job whose turn it is; only if there is one, as for Take().
  [[nodiscard]] const Job& Next() const { return Turn()->second->job; }
  // The next items of that job: one, or as many as take about 100 us, while there is more left for each of `workers`.
  Items Take(std::size_t workers);

 private:
  using ByAge = std::map<std::uint64_t, std::shared_ptr<RunningJob>>;

  [[nodiscard]] ByAge::const_iterator Turn() const;

  std::uint64_t pushed_ = 0, taken_ = 0;
  absl::Duration work_;
  ByAge by_age_;                                           // by number
  std::set<std::pair<std::size_t, std::uint64_t>> sizes_;  // items to take, number
};

}  // namespace ckn
