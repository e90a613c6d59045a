#include "server/commands/progress.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "server/base/signal_mask.h"

namespace ckn {
namespace {

std::atomic<bool> stop_requested{false};

void StopOnSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_requested.store(true, std::memory_order_relaxed); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  BlockStopSignals();
  std::thread([] {
    UnblockStopSignals();
    for (;;) pause();
  }).detach();
}

}  // namespace

Progress InteractiveProgress() {
  StopOnSignals();
  Progress progress;
  progress.stop = &stop_requested;
  progress.report = [start = std::chrono::steady_clock::now()](const std::string& line) {
    std::fprintf(stderr, "[%7.1f s] %s\n",
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), line.c_str());
  };
  return progress;
}

}  // namespace ckn
