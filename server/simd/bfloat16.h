#pragma once

#include <cstddef>
#include <cstdint>

namespace ckn {

// to[i] = from[i] rounded to the nearest number of bfloat16, which has 8 bits of precision, ties to even; NaN stays
// NaN. `to` may be `from`.
void RoundToBfloat16(const float* from, std::size_t n, float* to);

// to[i] = from[i], a number rounded by the function above.
void PackBfloat16(const float* from, std::size_t n, std::uint16_t* to);

}  // namespace ckn
