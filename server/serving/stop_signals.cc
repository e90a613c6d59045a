#include "server/serving/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "server/base/signal_mask.h"
#include "spdlog/spdlog.h"

namespace ckn {
namespace {

constexpr std::array<int, 3> kSignals = {SIGTERM, SIGINT, SIGHUP};

// For the handler, which has no other way to find anything. Bytes are signal numbers; 0 ends the thread.
std::array<int, 2> pipe_ends = {-1, -1};
std::array<struct sigaction, kSignals.size()> previous_actions;

void Write(int signal) {
  const auto byte = static_cast<unsigned char>(signal);
  while (write(pipe_ends[1], &byte, 1) < 0 && errno == EINTR) {
  }
}

extern "C" void OnStopSignal(int signal) {
  const int saved_errno = errno;
  Write(signal);
  errno = saved_errno;
}

}  // namespace

StopSignals::StopSignals() {
  assert(pipe_ends[0] < 0);
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    std::perror("pipe2");  // no file descriptors left at the very start of the program
    std::abort();
  }
  BlockStopSignals();
  thread_ = std::thread([this] {
    UnblockStopSignals();
    Listen();
  });
  struct sigaction action {};
  action.sa_handler = &OnStopSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &previous_actions[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_actions[i], nullptr);
  Write(0);
  thread_.join();
  UnblockStopSignals();
  for (int& end : pipe_ends) {
    close(end);
    end = -1;
  }
}

void StopSignals::OnHangup(std::function<void()> action) {
  const absl::MutexLock lock(&mu_);
  on_hangup_ = std::move(action);
  if (on_hangup_ && hangup_waits_) on_hangup_();
  hangup_waits_ = hangup_waits_ && on_hangup_ == nullptr;
}

int StopSignals::Wait() {
  first_.WaitForNotification();
  return signal_.load();
}

void StopSignals::Listen() {
  for (;;) {
    unsigned char signal = 0;
    if (read(pipe_ends[0], &signal, 1) != 1) continue;  // interrupted
    if (signal == 0) return;
    if (signal == SIGHUP) {
      const absl::MutexLock lock(&mu_);
      hangup_waits_ = on_hangup_ == nullptr;
      if (on_hangup_) on_hangup_();
      continue;
    }
    if (first_.HasBeenNotified()) {
      spdlog::warn("second signal: stopping at once");
      _exit(1);
    }
    signal_.store(signal);
    first_.Notify();
  }
}

}  // namespace ckn
