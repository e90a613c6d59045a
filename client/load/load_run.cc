#include "client/load/load_run.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/channel.h"
#include "client/load/lane.h"
#include "client/load/stream_lane.h"
#include "client/load/unary_lane.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "server/base/resource_usage.h"

namespace ckn {
namespace {

// A closed loop would otherwise ask a server that is gone, or refuses, as fast as it can.
constexpr std::chrono::milliseconds kPauseAfterFailure(10);
constexpr std::chrono::milliseconds kCheckTimeouts(100);

std::int64_t Nanoseconds(SteadyTime::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

// Deletes itself once it has run.
class Timer final : public Event {
 public:
  explicit Timer(std::function<void()> action) : action_(std::move(action)) {}
  void Start(grpc::CompletionQueue& queue, std::chrono::milliseconds delay) {
    alarm_.Set(&queue, std::chrono::system_clock::now() + delay, this);
  }
  void Run(bool /*ok*/) override {
    const std::unique_ptr<Timer> self(this);
    action_();
  }

 private:
  const std::function<void()> action_;
  grpc::Alarm alarm_;
};

// Runs `action` after `delay` on the thread of the queue.
void StartTimer(grpc::CompletionQueue& queue, std::chrono::milliseconds delay, std::function<void()> action) {
  std::make_unique<Timer>(std::move(action)).release()->Start(queue, delay);
}

class Load;

// A thread with a completion queue, and the lanes whose calls end there.
class Receiver final : public LaneOwner {
 public:
  Receiver(Load& load, const RequestOptions& request) : load_(load), reader_(request) {}

  void AddLane(const LoadPlan& plan, const std::shared_ptr<grpc::Channel>& channel);
  void Start();
  // While no call is in flight; Load::OnClosed is called closing_steps() times.
  void Close();
  [[nodiscard]] int closing_steps() const { return static_cast<int>(lanes_.size()) + (check_timeouts_ ? 1 : 0); }
  // After the last of them.
  void Stop();

  void OnDone(Lane& lane, const CallEnd& end) override;
  void OnClosed() override;

  [[nodiscard]] const std::vector<std::unique_ptr<Lane>>& lanes() const { return lanes_; }
  // What has been seen since the last time. Only while no call is in flight.
  LoadResult TakeResult() { return std::exchange(result_, LoadResult()); }
  [[nodiscard]] SteadyTime last_end() const { return last_end_; }

 private:
  void Record(const CallEnd& end, SteadyTime now);
  void CheckTimeouts();

  Load& load_;
  ReplyReader reader_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  bool check_timeouts_ = false;
  std::atomic<int> lanes_open_{0};
  std::thread thread_;
  // Of the thread.
  LoadResult result_;
  SteadyTime last_end_;
  bool last_failed_ = false;
};

class Load {
 public:
  Load(const LoadPlan& plan, const std::vector<grpc::ByteBuffer>& requests) : plan_(plan), requests_(requests) {}

  absl::StatusOr<LoadResult> Run();

  // Called by receivers when a call has ended; `failed`: pause before the next.
  void OnDone(Lane& lane, grpc::CompletionQueue& queue, bool failed);
  void OnClosed() { Ended(); }

 private:
  enum class Phase { kFirstCalls, kClosedLoop, kOpenLoop };

  absl::Status MakeFirstCalls();
  void RunClosedLoop();
  void RunOpenLoop();
  // Of a closed loop: sends the next call, or ends this place among those in flight.
  void SendNext(Lane& lane);
  void Send(Lane& lane, std::int64_t call, SteadyTime due);
  void Ended() {
    const absl::MutexLock lock(&mu_);
    --pending_;
  }
  void Begin(int count) {
    const absl::MutexLock lock(&mu_);
    pending_ += count;
  }
  void WaitUntilPendingIsAtMost(int most) {
    const absl::MutexLock lock(&mu_);
    const auto reached = [this, most]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return pending_ <= most; };
    mu_.Await(absl::Condition(&reached));
  }

  const LoadPlan& plan_;
  const std::vector<grpc::ByteBuffer>& requests_;
  std::vector<std::unique_ptr<Receiver>> receivers_;
  std::vector<Lane*> lanes_;
  Phase phase_ = Phase::kFirstCalls;  // changes only while nothing is pending
  SteadyTime start_;
  SteadyTime end_;
  std::atomic<std::int64_t> next_call_{0};
  absl::Mutex mu_;
  int pending_ ABSL_GUARDED_BY(mu_) = 0;
};

void Receiver::AddLane(const LoadPlan& plan, const std::shared_ptr<grpc::Channel>& channel) {
  if (plan.request.stream) {
    lanes_.push_back(std::make_unique<StreamLane>(channel, RpcPath(plan.request), plan.client, queue_, *this));
    check_timeouts_ = true;
  } else {
    lanes_.push_back(std::make_unique<UnaryLane>(channel, RpcPath(plan.request), plan.client, queue_, *this));
  }
}

void Receiver::Start() {
  lanes_open_.store(static_cast<int>(lanes_.size()));
  thread_ = std::thread([this] {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) static_cast<Event*>(tag)->Run(ok);
  });
  if (check_timeouts_) CheckTimeouts();
}

void Receiver::Close() {
  for (const auto& lane : lanes_) lane->Close();
}

void Receiver::Stop() {
  queue_.Shutdown();
  thread_.join();
}

void Receiver::CheckTimeouts() {
  StartTimer(queue_, kCheckTimeouts, [this] {
    if (lanes_open_.load() == 0) return load_.OnClosed();
    for (const auto& lane : lanes_) lane->CheckTimeout();
    CheckTimeouts();
  });
}

void Receiver::OnDone(Lane& lane, const CallEnd& end) {
  Record(end, std::chrono::steady_clock::now());
  load_.OnDone(lane, queue_, last_failed_);
}

void Receiver::OnClosed() {
  lanes_open_.fetch_sub(1);
  load_.OnClosed();
}

void Receiver::Record(const CallEnd& end, SteadyTime now) {
  absl::Status status = end.status;
  if (status.ok()) status = reader_.Read(*end.reply, result_.images);
  LoadResult::Calls& calls = result_.calls[status.code()];
  if (calls.latency.count() == 0) calls.message = std::string(status.message());
  calls.latency.Record(Nanoseconds(now - end.due));
  result_.lateness.Record(Nanoseconds(end.sent - end.due));
  last_end_ = now;
  last_failed_ = !status.ok();
}

void Load::OnDone(Lane& lane, grpc::CompletionQueue& queue, bool failed) {
  if (phase_ != Phase::kClosedLoop) return Ended();
  if (!failed) return SendNext(lane);
  StartTimer(queue, kPauseAfterFailure, [this, &lane] { SendNext(lane); });
}

void Load::SendNext(Lane& lane) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const std::int64_t call = next_call_.fetch_add(1, std::memory_order_relaxed);
  if (call >= plan_.calls || now >= end_) return Ended();
  Send(lane, call, now);
}

void Load::Send(Lane& lane, std::int64_t call, SteadyTime due) {
  lane.Send(requests_[static_cast<std::size_t>(call) % requests_.size()], due);
}

absl::Status Load::MakeFirstCalls() {
  phase_ = Phase::kFirstCalls;
  Begin(static_cast<int>(lanes_.size()));
  for (Lane* const lane : lanes_) Send(*lane, 0, std::chrono::steady_clock::now());
  WaitUntilPendingIsAtMost(0);
  absl::Status failed;
  for (const auto& receiver : receivers_) {
    for (const auto& [code, calls] : receiver->TakeResult().calls) {
      if (code != absl::StatusCode::kOk && !plan_.tolerated.contains(code)) failed = absl::Status(code, calls.message);
    }
  }
  if (!absl::IsUnavailable(failed)) return failed;
  // gRPC's words name an address or none; the user knows the name they gave.
  return absl::UnavailableError(absl::StrCat("server ", plan_.server, ": ", std::string(failed.message())));
}

void Load::RunClosedLoop() {
  phase_ = Phase::kClosedLoop;
  Begin(plan_.in_flight);
  for (int i = 0; i < plan_.in_flight; ++i) SendNext(*lanes_[static_cast<std::size_t>(i) % lanes_.size()]);
}

void Load::RunOpenLoop() {
  phase_ = Phase::kOpenLoop;
  // The default lets the system wake this thread up to 50 us late.
  prctl(PR_SET_TIMERSLACK, 1UL);
  ArrivalSchedule schedule(*plan_.rate, plan_.arrivals, plan_.seed);
  for (std::int64_t call = 0; call < plan_.calls; ++call) {
    const SteadyTime due = start_ + schedule.Next();
    if (due >= end_) break;
    std::this_thread::sleep_until(due);
    WaitUntilPendingIsAtMost(plan_.in_flight - 1);
    Begin(1);
    Send(*lanes_[static_cast<std::size_t>(call) % lanes_.size()], call, due);
  }
}

absl::StatusOr<LoadResult> Load::Run() {
  for (int i = 0; i < std::min(plan_.threads, plan_.connections); ++i) {
    receivers_.push_back(std::make_unique<Receiver>(*this, plan_.request));
  }
  for (int i = 0; i < plan_.connections; ++i) {
    grpc::ChannelArguments arguments;
    // Otherwise channels to the same address share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    Receiver& receiver = *receivers_[static_cast<std::size_t>(i) % receivers_.size()];
    receiver.AddLane(plan_, MakeChannel(plan_.server, plan_.client, arguments));
    lanes_.push_back(receiver.lanes().back().get());
  }
  for (const auto& receiver : receivers_) receiver->Start();

  const absl::Status first = MakeFirstCalls();
  const double cpu_start = ProcessCpuSeconds();
  start_ = std::chrono::steady_clock::now();
  end_ = plan_.duration == absl::InfiniteDuration()
             ? SteadyTime::max()
             : start_ + std::chrono::duration_cast<SteadyTime::duration>(absl::ToChronoNanoseconds(plan_.duration));
  if (first.ok()) {
    if (plan_.rate) {
      RunOpenLoop();
    } else {
      RunClosedLoop();
    }
    WaitUntilPendingIsAtMost(0);
  }

  LoadResult result;
  result.cpu_seconds = ProcessCpuSeconds() - cpu_start;
  for (const auto& receiver : receivers_) {
    Begin(receiver->closing_steps());
    receiver->Close();
  }
  WaitUntilPendingIsAtMost(0);
  for (const auto& receiver : receivers_) receiver->Stop();
  if (!first.ok()) return first;

  SteadyTime last_end = start_;
  for (const auto& receiver : receivers_) {
    const LoadResult part = receiver->TakeResult();
    for (const auto& [code, calls] : part.calls) {
      LoadResult::Calls& sum = result.calls[code];
      if (sum.latency.count() == 0) sum.message = calls.message;
      sum.latency.Add(calls.latency);
    }
    for (std::size_t i = 0; i < part.images.size(); ++i) result.images[i] += part.images[i];
    result.lateness.Add(part.lateness);
    last_end = std::max(last_end, receiver->last_end());
  }
  result.seconds = std::chrono::duration<double>(last_end - start_).count();
  return result;
}

}  // namespace

std::int64_t LoadResult::Count() const {
  std::int64_t sum = 0;
  for (const auto& [code, of_code] : calls) sum += of_code.latency.count();
  return sum;
}

std::int64_t LoadResult::Count(absl::StatusCode code) const {
  const auto found = calls.find(code);
  return found == calls.end() ? 0 : found->second.latency.count();
}

absl::StatusOr<LoadResult> RunLoad(const LoadPlan& plan, const std::vector<grpc::ByteBuffer>& requests) {
  return Load(plan, requests).Run();
}

}  // namespace ckn
