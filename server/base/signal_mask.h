#pragma once

namespace ckn {

// SIGINT, SIGTERM and SIGHUP must not interrupt a thread that computes: the matrix products that oneDNN 2.6 generates
// do not survive a signal handler on their stack (seen as heap corruption after Ctrl-C in the middle of a product). So
// a program blocks them in main() before it starts threads, which inherit the mask, and lets them in on one idle
// thread.
void BlockStopSignals();
void UnblockStopSignals();

}  // namespace ckn
