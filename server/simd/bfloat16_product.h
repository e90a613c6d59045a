#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Products of bfloat16 numbers with single precision sums, on units that take two of them at a time, a pair. A run of
// neighbouring elements of a patch is pairs of them, its last one filled up by whatever comes next, times 0.
namespace ckn {

// Best last.
enum class Bfloat16Unit {
  kNone,    // the products are those of rounded numbers in single precision
  kAvx512,  // AVX512_BF16: VDPBF16PS
  kAmx,     // AMX_BF16: TDPBF16PS, on tiles of 16 patches, 16 pairs and 16 filters
};

// Filters in a vector.
inline constexpr std::size_t kBfloat16Lanes = 16;
// That a tile has; the kernels read so many patches and pairs from where a tile begins, whether or not they count.
inline constexpr std::size_t kTilePatches = 16, kTilePairs = 16;

// Neighbouring patches in memory: pair k of the i-th one begins at first + i * stride + pairs[k].
struct Bfloat16Patches {
  const std::uint16_t* first = nullptr;
  std::size_t stride = 0;
  std::span<const std::size_t> pairs;
  std::size_t count = 0;
};

// sums [count][vectors * kBfloat16Lanes], aligned to 64 bytes: the products with weights [pairs][vectors *
// kBfloat16Lanes][2]. vectors is 1 ... 4.
void SumPairs(const Bfloat16Patches& patches, const float* weights, int vectors, float* sums);

// The same on AMX. The number of pairs is a multiple of kTilePairs, each group of which are neighbours in memory, and
// sums has room for a multiple of kTilePatches.
void SumPairsAmx(const Bfloat16Patches& patches, const float* weights, int vectors, float* sums);

}  // namespace ckn
