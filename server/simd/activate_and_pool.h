#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/base/matrix.h"

// The inner loop of Algorithm 2 for one layer, from the map below to the pooled map, fused: the sums of a tile of
// patches times a block of filters stay in registers, where there are enough of them as far as the exponential, and one
// row of activations in the L1 cache until it is pooled. Neither patches nor activations of a whole image are ever in
// memory.
namespace ckn {

// Floats whose first one lies on a cache line.
class AlignedFloats {
 public:
  // At least this many; contents are lost when it grows.
  void Reserve(std::size_t size);
  [[nodiscard]] float* data() { return data_.get(); }
  [[nodiscard]] const float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* data) const;
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t size_ = 0;
};

// Filters in the order in which the loop reads them: blocks of neighbouring filters, in each of them element after
// element. Packed for the instruction set of this machine.
class FilterBank {
 public:
  FilterBank() = default;
  // filters [p][dim], bias [p]. The activation of a patch is norm * 2^(slope * (w . psi) + offset + bias).
  FilterBank(const RowMatrixF& filters, const Eigen::VectorXf& bias);

  struct Block {
    int first = 0;    // filter
    int count = 0;    // filters
    int vectors = 0;  // of the instruction set, that hold them
    std::size_t weights_at = 0, bias_at = 0;
  };
  [[nodiscard]] std::span<const Block> blocks() const { return blocks_; }
  [[nodiscard]] const float* weights(const Block& block) const { return data_.data() + block.weights_at; }
  [[nodiscard]] const float* bias(const Block& block) const { return data_.data() + block.bias_at; }

 private:
  std::vector<Block> blocks_;
  AlignedFloats data_;
};

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
  int first_row = 0;  // in the activation map
  int rows = 0, columns = 0;
  // [rows][columns]
  const float *slope = nullptr, *offset = nullptr, *norm = nullptr;
};

// Adds the pooled activations of these rows for one block of filters to pooled [vertical.size][horizontal.size][p],
// from the block's first filter on. `scratch` grows to one row of activations and the block's pooled map. The squares
// of all the activations are added to *energy, unless it is nullptr.
void ActivateAndPool(const FilterBank& bank, const FilterBank::Block& block, const PatchRows& rows,
                     const PoolingAxis& vertical, const PoolingAxis& horizontal, int p, AlignedFloats& scratch,
                     float* pooled, double* energy);

}  // namespace ckn
