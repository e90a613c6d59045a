#include "server/base/signal_mask.h"

#include <csignal>

namespace ckn {
namespace {

void ChangeMask(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(how, &signals, nullptr);
}

}  // namespace

void BlockStopSignals() { ChangeMask(SIG_BLOCK); }
void UnblockStopSignals() { ChangeMask(SIG_UNBLOCK); }

}  // namespace ckn
