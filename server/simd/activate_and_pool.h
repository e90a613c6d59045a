#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "server/simd/aligned_floats.h"
#include "server/simd/bfloat16_product.h"
#include "server/simd/filter_bank.h"
#include "server/simd/winograd.h"

// The inner loop of Algorithm 2 for one layer, from the map below to the pooled map, fused: the sums of some patches
// times a block of filters stay in registers, where there are enough of them as far as the exponential, and one row of
// activations in the L1 cache until it is pooled. Neither patches nor activations of a whole image are ever in memory.
namespace ckn {

// One axis of the Gaussian pooling filter: outputs i have their centre at (subsampling - 1) / 2 + i * subsampling.
struct PoolingAxis {
  int size = 0;  // of the pooled map
  int subsampling = 1;
  int radius = 0;
  const float* taps = nullptr;  // [2 * radius + 1]

  // The first and last output that activations begin ... end (both included) reach; first > last: none.
  [[nodiscard]] std::pair<int, int> Reached(int begin, int end) const;
};

// Rows of patches in memory. Patch x of row y begins at patches + y * row_stride + x * patch_stride; element k of it
// lies elements[k] floats further on: patches either lie in the map itself or have been copied out.
struct PatchRows {
  const float* patches = nullptr;
  std::size_t row_stride = 0, patch_stride = 0;
  std::span<const std::size_t> elements;
  // For a bank of pairs: the same patches in bfloat16. `elements` are then the places of pairs.
  const std::uint16_t* bfloat16 = nullptr;
  Bfloat16Unit unit = Bfloat16Unit::kNone;
  // For a bank of tiles: their transforms, in place of patches. `rows` and `columns` are still those of patches.
  const float* tiles = nullptr;
  TileGrid grid;
  int first_row = 0;  // in the activation map
  int rows = 0, columns = 0;
  // [rows][columns]
  const float *slope = nullptr, *offset = nullptr, *norm = nullptr;
};

// Adds the pooled activations of these rows for one block of filters to pooled [vertical.size][horizontal.size][p],
// from the block's first filter on. `scratch` grows to one row of activations and the block's pooled map, or three rows
// and the products of some tiles. The squares of all the activations are added to *energy, unless it is nullptr.
void ActivateAndPool(const FilterBank& bank, const FilterBank::Block& block, const PatchRows& rows,
                     const PoolingAxis& vertical, const PoolingAxis& horizontal, int p, AlignedFloats& scratch,
                     float* pooled, double* energy);

}  // namespace ckn
