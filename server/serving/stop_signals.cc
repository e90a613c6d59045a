#include "server/serving/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>

#include "spdlog/spdlog.h"

namespace ckn {
namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { Listen(); });
}

StopSignals::~StopSignals() {
  closing_.store(true);
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

int StopSignals::Wait() {
  first_.WaitForNotification();
  return signal_.load();
}

void StopSignals::Listen() {
  const sigset_t set = StopSet();
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (closing_.load()) return;
    if (first_.HasBeenNotified()) {
      spdlog::warn("second signal: stopping at once");
      _exit(1);
    }
    signal_.store(signal);
    first_.Notify();
  }
}

}  // namespace ckn
