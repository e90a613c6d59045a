#pragma once

#include <cstddef>

namespace ckn {

// out[i] = rows[i] . x, for `count` rows of `dim` numbers, one behind the other.
void RowDots(const float* rows, std::size_t count, std::size_t dim, const float* x, float* out);

}  // namespace ckn
