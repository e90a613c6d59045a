#pragma once

#include <cstddef>

namespace ckn {

// values[i] = factor * exp(slope * values[i] + bias[i]) for i in [0, n): the activation of a layer, with the layer's
// constants folded into slope and bias, or one row of problem (4). Arguments below -104 give 0.
// Relative error of the exponential: <= kExpRelTol, on every instruction set. Chosen at run time (Highway).
inline constexpr float kExpRelTol = 4e-7F;
void ExpAffine(float slope, const float* bias, float factor, float* values, std::size_t n);

}  // namespace ckn
