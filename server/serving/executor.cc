#include "server/serving/executor.h"

#include <pthread.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hwy/cache_control.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// Of work that is left to a lender at a time.
constexpr absl::Duration kMaxLeft = absl::Microseconds(200);

// How long a thread waits awake for the next of the loops that are to come, and for those who help with its own.
constexpr std::chrono::microseconds kWatch(300);

// Whether `done` came true within kWatch.
template <typename Done>
bool WaitAwake(Done done) {
  constexpr int kPauses = 32;  // about a microsecond, in which a thread on the same core has it for itself
  for (const auto end = std::chrono::steady_clock::now() + kWatch; !done();) {
    if (std::chrono::steady_clock::now() >= end) return false;
    for (int i = 0; i < kPauses; ++i) hwy::Pause();
  }
  return true;
}

// Jobs a worker that are work for a millisecond.
constexpr std::size_t kLongQueue = 32;

thread_local Executor::Lender* lender_of_this_thread = nullptr;

// What the job that this thread is done with still counts for; nullptr: it is not in a done().
thread_local std::int64_t* share_of_this_thread = nullptr;

}  // namespace

Executor::Lender::Lender(Executor& executor) : executor_(executor) { lender_of_this_thread = this; }

Executor::Lender::~Lender() {
  while (Lend()) {
  }
  lender_of_this_thread = nullptr;
}

bool Executor::Lender::Lend() {
  const bool some_left = left_ > absl::ZeroDuration();
  if (!some_left && !executor_.may_take_.load(std::memory_order_relaxed)) return false;
  const absl::MutexLock lock(&executor_.mu_);
  const bool lend = executor_.MayTake() && executor_.ShortTurn();
  if (lend) {
    left_ = std::max(left_ - executor_.queue_.Next().estimate, absl::ZeroDuration());
    executor_.RunNext();
    // For what waited for the place.
    if (left_ == absl::ZeroDuration() && !executor_.queue_.empty()) executor_.changed_.Signal();
  } else {
    // Workers are at what was left, or must be.
    left_ = absl::ZeroDuration();
    if (some_left && !executor_.queue_.empty()) executor_.changed_.SignalAll();
  }
  return lend;
}

Executor::Lender* Executor::LenderOfThisThread() const {
  return lender_of_this_thread != nullptr && &lender_of_this_thread->executor_ == this ? lender_of_this_thread
                                                                                       : nullptr;
}

Executor::Executor(const ExecutorOptions& options, prometheus::Gauge* queue_length, prometheus::Gauge* bytes)
    : options_(options), length_gauge_(queue_length), bytes_gauge_(bytes) {
  assert(options.threads >= 0 && options.max_queue >= 1);
  workers_.reserve(static_cast<std::size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) {
    workers_.emplace_back([this] { Work(); });
    // What `top -H` shows.
    pthread_setname_np(workers_.back().native_handle(), "ckn-executor");
  }
}

Executor::~Executor() { Drain(); }

absl::Status Executor::Submit(Job job) {
  assert(job.items >= 1);
  const bool many = job.items > 1;
  const absl::Duration estimate = job.estimate;
  const std::int64_t bytes = job.bytes;
  Lender* const lender = LenderOfThisThread();
  auto running = std::make_shared<RunningJob>(std::move(job));
  const absl::MutexLock lock(&mu_);
  if (draining_) return absl::UnavailableError("the server is stopping and takes no new calls");
  if (!running->job.patient) CKN_RETURN_IF_ERROR(Room());
  if (bytes_ > 0 && bytes > options_.max_bytes - bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("too much is in work: ", bytes, " bytes more than the ", bytes_,
                                                     " there are, the limit is ", options_.max_bytes,
                                                     "; try again later"));
  }
  bytes_ += bytes;
  if (running->job.patient) {
    patient_.push_back(std::move(running));
    AdmitPatient();
  } else {
    queue_.Push(std::move(running));
  }
  Publish();
  if (lender != nullptr && !many && lender->left_ + estimate <= kMaxLeft && MayTake()) {
    lender->left_ += estimate;
  } else if (many) {
    changed_.SignalAll();
  } else {
    changed_.Signal();
  }
  return absl::OkStatus();
}

std::shared_ptr<void> Executor::Hold(std::int64_t bytes) {
  const std::int64_t share = share_of_this_thread == nullptr ? 0 : std::min(*share_of_this_thread, bytes);
  ChangeHeld(bytes, share);
  if (share > 0) *share_of_this_thread -= share;
  return {this, [bytes](Executor* self) { self->ChangeHeld(-bytes); }};
}

void Executor::ChangeHeld(std::int64_t by, std::int64_t counted) {
  const absl::MutexLock lock(&mu_);
  bytes_ += by - counted;
  held_ += by;
  Publish();
}

absl::Status Executor::CheckRoom() const {
  const absl::MutexLock lock(&mu_);
  return Room();
}

absl::Status Executor::Room() const {
  if (queue_.size() < options_.max_queue) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", queue_.size(), " calls wait, the limit is ",
                                                   options_.max_queue, "; try again later"));
}

void Executor::Drain() {
  {
    const absl::MutexLock lock(&mu_);
    draining_ = true;
    changed_.SignalAll();
  }
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  while (RunOne()) {
  }
  const absl::MutexLock lock(&mu_);
  while (running_ > 0) all_run_.Wait(&mu_);
}

bool Executor::RunOne() {
  const absl::MutexLock lock(&mu_);
  if (queue_.empty()) return false;
  RunNext();
  return true;
}

std::size_t Executor::queue_length() const {
  const absl::MutexLock lock(&mu_);
  return queue_.size();
}

bool Executor::ShortTurn() const { return queue_.Next().items == 1 && queue_.Next().estimate <= kMaxLeft; }

bool Executor::MayTake() const { return !queue_.empty() && running_ < options_.threads; }

void Executor::Work() {
  const Scope scope(this);
  const absl::MutexLock lock(&mu_);
  for (;;) {
    while (!MayTake() && shared_.empty() && !(draining_ && queue_.empty())) {
      ++idle_;
      if (!Watch()) changed_.Wait(&mu_);
      --idle_;
    }
    if (MayTake()) {
      RunNext();
    } else if (!shared_.empty()) {
      Help();
    } else {
      return;
    }
  }
}

bool Executor::Watch() {
  if (attention_.load(std::memory_order_relaxed) == 0 || draining_) return false;
  mu_.Unlock();
  const bool seen = WaitAwake([this] {
    return loops_open_.load(std::memory_order_relaxed) || may_take_.load(std::memory_order_relaxed) ||
           attention_.load(std::memory_order_relaxed) == 0;
  });
  mu_.Lock();
  // What came while there was no lock has been signalled to nobody.
  return seen || MayTake() || !shared_.empty() || draining_;
}

void Executor::BeginAttention(std::size_t count) {
  const auto idle = static_cast<std::size_t>(idle_.load(std::memory_order_relaxed));
  attention_.fetch_add(1, std::memory_order_relaxed);
  if (idle == 0) return;
  const absl::MutexLock lock(&mu_);
  for (std::size_t i = 0; i < std::min(count, idle); ++i) changed_.Signal();
}

void Executor::EndAttention() { attention_.fetch_sub(1, std::memory_order_relaxed); }

void Executor::Help() {
  Shared& shared = *shared_.front();
  ++shared.helping;
  mu_.Unlock();
  shared.loop.Run(&may_take_);
  mu_.Lock();
  if (shared.loop.exhausted()) Withdraw(shared);
  // release: the loop's owner, once it sees that nobody is left, sees what they wrote.
  if (shared.helping.fetch_sub(1, std::memory_order_release) == 1) helped_.SignalAll();
}

void Executor::Withdraw(Shared& shared) {
  shared_.erase(std::remove(shared_.begin(), shared_.end(), &shared), shared_.end());
  loops_open_.store(!shared_.empty(), std::memory_order_relaxed);
}

void Executor::Share(std::size_t count, absl::FunctionRef<void(std::size_t i)> body) {
  Shared shared{.loop = {count, body}};
  const auto idle = static_cast<std::size_t>(idle_.load(std::memory_order_relaxed));
  const bool open = idle > 0 && count > 1;
  if (open) {
    const absl::MutexLock lock(&mu_);
    shared_.push_back(&shared);
    loops_open_.store(true, std::memory_order_relaxed);
    for (std::size_t i = 0; i < std::min(count - 1, idle); ++i) changed_.Signal();
  }
  shared.loop.Run();
  if (open) {
    {
      const absl::MutexLock lock(&mu_);
      Withdraw(shared);
    }
    if (!WaitAwake([&shared] { return shared.helping.load(std::memory_order_acquire) == 0; })) {
      const absl::MutexLock lock(&mu_);
      while (shared.helping.load(std::memory_order_acquire) > 0) helped_.Wait(&mu_);
    }
  }
  shared.loop.RethrowError();
}

void Executor::AdmitOnePatient() {
  if (patient_.empty()) return;
  queue_.Push(std::move(patient_.front()));
  patient_.pop_front();
}

void Executor::AdmitPatient() {
  while (!patient_.empty() && queue_.size() < (options_.max_queue + 1) / 2) AdmitOnePatient();
}

void Executor::Publish() {
  may_take_.store(MayTake(), std::memory_order_relaxed);
  overloaded_.store(
      queue_.size() >= std::max(options_.max_queue, kLongQueue * static_cast<std::size_t>(options_.threads)),
      std::memory_order_relaxed);
  backlog_.store(absl::ToInt64Nanoseconds(queue_.work()) / std::max(options_.threads, 1), std::memory_order_relaxed);
  if (length_gauge_ != nullptr) length_gauge_->Set(static_cast<double>(queue_.size()));
  if (bytes_gauge_ != nullptr) bytes_gauge_->Set(static_cast<double>(bytes_));
}

void Executor::RunNext() {
  JobQueue::Items items = queue_.Take(static_cast<std::size_t>(options_.threads));
  // However full the others keep the queue, the patient ones get on.
  constexpr std::uint64_t kPatientEvery = 4;
  if (++taken_ % kPatientEvery == 0 && queue_.size() < options_.max_queue) AdmitOnePatient();
  AdmitPatient();
  ++running_;
  Publish();
  mu_.Unlock();
  const Job& job = items.running->job;
  for (std::size_t item = items.begin; item < items.end; ++item) job.run(item);
  std::int64_t freed = 0;
  // acq_rel: the last one sees what all the others wrote.
  const std::size_t count = items.end - items.begin;
  if (items.running->left.fetch_sub(count, std::memory_order_acq_rel) == count) {
    freed = job.bytes;
    share_of_this_thread = &freed;
    job.done();
    share_of_this_thread = nullptr;
  }
  items.running.reset();  // which may free the job
  mu_.Lock();
  --running_;
  bytes_ -= freed;
  Publish();
  if (draining_ && running_ == 0) all_run_.SignalAll();
}

}  // namespace ckn
