#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/simd/bfloat16_product.h"

namespace ckn {

// Instruction sets that this program has code for and this machine can run, best first: "amx_bf16", "avx512_bf16",
// "avx512", "avx2", ... To be called while no loop runs.
std::vector<std::string> SimdTargets();
// The one that single precision runs on, or products of bfloat16.
std::string SimdTarget(bool bfloat16 = false);

// From now on at most the instruction set of that name, for our own loops and for oneDNN's products. To be called
// before either has run. INVALID_ARGUMENT for a name that is none of SimdTargets().
absl::Status SelectSimdTarget(const std::string& name);

// What computes products of bfloat16 numbers: none when the loops run on less than AVX-512. Asks the system for the use
// of tiles, if there are any.
Bfloat16Unit ChosenBfloat16Unit();
// At most this one from now on.
void LimitBfloat16Unit(Bfloat16Unit most);

}  // namespace ckn
