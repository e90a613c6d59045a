#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "server/base/matrix.h"
#include "server/simd/aligned_floats.h"

namespace ckn {

// The filters of a layer, p of them. The activation of a patch psi is
//   norm * 2^min(slope * (w . psi) + offset + bias, limit)
// with slope, offset and norm of the patch, bias and limit of the filter w.
struct Filters {
  RowMatrixF weights;    // [p][dim]
  Eigen::VectorXf bias;  // [p]
  // [p], at most 127; what the exponent would be for a patch that is the filter.
  Eigen::VectorXf limit;
};

// Filters in the order in which the loops of ActivateAndPool read them: blocks of neighbouring filters, in each of them
// element after element. Packed for the instruction set of this machine.
class FilterBank {
 public:
  FilterBank() = default;
  explicit FilterBank(const Filters& filters);
  // For products of transformed tiles (winograd.h): elements are position after position, in each the channels.
  // patch_size is one that has a transform, and elements of a filter are [patch_size][patch_size][channels].
  static FilterBank OfTiles(const Filters& filters, int patch_size);

  // For products of pairs of bfloat16 numbers (bfloat16_product.h), of elements in runs of `run` neighbours, each of
  // which takes pairs_per_run pairs. The weights are rounded already; two of them lie in the place of one.
  static FilterBank OfPairs(const Filters& filters, int run, int pairs_per_run);

  struct Block {
    int first = 0;    // filter
    int count = 0;    // filters
    int vectors = 0;  // of the instruction set, that hold them
    std::size_t weights_at = 0, bias_at = 0, limit_at = 0;
  };
  [[nodiscard]] std::span<const Block> blocks() const { return blocks_; }
  [[nodiscard]] const float* weights(const Block& block) const { return data_.data() + block.weights_at; }
  [[nodiscard]] const float* bias(const Block& block) const { return data_.data() + block.bias_at; }
  [[nodiscard]] const float* limit(const Block& block) const { return data_.data() + block.limit_at; }

 private:
  // A product takes product_dim elements of a filter at a time.
  FilterBank(const Filters& filters, std::size_t product_dim);

  std::vector<Block> blocks_;
  AlignedFloats data_;
};

}  // namespace ckn
