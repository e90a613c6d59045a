#pragma once

#include "server/training/progress.h"

namespace ckn {

// For work at a terminal: lines with the time since this call on stderr; the first SIGINT or SIGTERM asks the work to
// stop at the next safe point, the second one ends the program at once. Call it once, before starting threads.
Progress InteractiveProgress();

}  // namespace ckn
