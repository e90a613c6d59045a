#pragma once

#include <cstddef>

#include "server/simd/bfloat16_product.h"

namespace ckn {

// SumPairsAmx on a unit with eight tile registers of 16 rows of 64 bytes, each named by a number:
//   Zero<t>()                     t = 0
//   Load<t>(from, stride)         rows from `from`, `stride` bytes apart
//   Dot<c, a, b>()                c[i][j] += sum of a[i][k] b[k][j] over the 16 pairs k, c in single precision
//   Store<t>(to, stride)
// A template, since the tests know another unit than AMX.
template <class Unit>
class AmxProduct {
 public:
  static void Run(const Bfloat16Patches& patches, const float* weights, int vectors, float* sums) {
    std::size_t i = 0;
    // Two tiles of patches by two of filters: as many loads as products.
    for (; i + kTilePatches < patches.count; i += 2 * kTilePatches) Row<true>(patches, i, weights, vectors, sums);
    if (i < patches.count) Row<false>(patches, i, weights, vectors, sums);
  }

 private:
  template <bool kTwoPatches>
  static void Row(const Bfloat16Patches& patches, std::size_t i, const float* weights, int vectors, float* sums) {
    int v = 0;
    for (; v + 1 < vectors; v += 2) Some<kTwoPatches, true>(patches, i, weights, vectors, v, sums);
    if (v < vectors) Some<kTwoPatches, false>(patches, i, weights, vectors, v, sums);
  }

  template <bool kTwoPatches, bool kTwoVectors>
  static void Some(const Bfloat16Patches& patches, std::size_t i, const float* weights, int vectors, int v,
                   float* sums) {
    const std::size_t width = static_cast<std::size_t>(vectors) * kBfloat16Lanes;
    const std::size_t patch_bytes = patches.stride * sizeof(*patches.first), width_bytes = width * sizeof(float);
    Unit::template Zero<0>();
    if constexpr (kTwoVectors) Unit::template Zero<1>();
    if constexpr (kTwoPatches) Unit::template Zero<2>();
    if constexpr (kTwoPatches && kTwoVectors) Unit::template Zero<3>();
    const float* from = weights + static_cast<std::size_t>(v) * kBfloat16Lanes;
    for (std::size_t k = 0; k < patches.pairs.size(); k += kTilePairs) {
      const auto* const patch = patches.first + i * patches.stride + patches.pairs[k];
      Unit::template Load<4>(patch, patch_bytes);
      Unit::template Load<6>(from, width_bytes);
      Unit::template Dot<0, 4, 6>();
      if constexpr (kTwoVectors) {
        Unit::template Load<7>(from + kBfloat16Lanes, width_bytes);
        Unit::template Dot<1, 4, 7>();
      }
      if constexpr (kTwoPatches) {
        Unit::template Load<5>(patch + kTilePatches * patches.stride, patch_bytes);
        Unit::template Dot<2, 5, 6>();
        if constexpr (kTwoVectors) Unit::template Dot<3, 5, 7>();
      }
      from += kTilePairs * width;
    }
    float* const to = sums + i * width + static_cast<std::size_t>(v) * kBfloat16Lanes;
    Unit::template Store<0>(to, width_bytes);
    if constexpr (kTwoVectors) Unit::template Store<1>(to + kBfloat16Lanes, width_bytes);
    if constexpr (kTwoPatches) {
      Unit::template Store<2>(to + kTilePatches * width, width_bytes);
      if constexpr (kTwoVectors) Unit::template Store<3>(to + kTilePatches * width + kBfloat16Lanes, width_bytes);
    }
  }
};

}  // namespace ckn
