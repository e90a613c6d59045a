#pragma once

#include <span>
#include <vector>

// How unusual an image is for a model: the residual of its patches (Encoder::Encode), compared with the training
// images'. Nothing is learned for it but the quantiles of those.
namespace ckn {

struct Novelty {
  float residual = 0;
  // The part of the training images whose residual is smaller, 0 to 1.
  float rank = 0;
};

// Of residuals (at least one, finite), at 0, 1 / (k - 1), ..., 1: [k], ascending, k at most 1,001.
std::vector<float> ResidualQuantiles(std::vector<float> residuals);

// `quantiles` as above, at least one; ranks between two of them are interpolated.
Novelty RankResidual(std::span<const float> quantiles, float residual);

}  // namespace ckn
