#pragma once

namespace ckn {

// Of the products of an encoder. kBfloat16: filters and the elements of patches are rounded to bfloat16, to nearest and
// ties to even, and their products are summed in single precision; norms are those of the rounded patches. All else is
// single precision as with kFloat32.
enum class Precision { kFloat32, kBfloat16 };

constexpr const char* PrecisionName(Precision precision) {
  return precision == Precision::kFloat32 ? "float32" : "bfloat16";
}

}  // namespace ckn
