#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ckn {

// Instruction sets that this program has code for and this machine can run, best first: "avx512", "avx2", ...
std::vector<std::string> SimdTargets();

// From now on at most the instruction set of that name, for our own loops and for oneDNN's products. To be called
// before either has run. INVALID_ARGUMENT for a name that is none of SimdTargets().
absl::Status SelectSimdTarget(const std::string& name);

}  // namespace ckn
