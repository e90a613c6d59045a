#pragma once

#include <vector>

#include "server/base/feature_map.h"
#include "server/ckn/layer.h"

// Readable double-precision twins of what the encoder computes fast, straight from the paper's formulas. Oracles for
// tests; never on a serving path.
namespace ckn {

// Algorithm 2 for all layers, by its formulas. Returns xi_N flattened [height][width][channels].
// Pooling is truncated at each layer's pooling_radius, as in the encoder.
std::vector<double> EncodeSlow(const std::vector<Layer>& layers, const FeatureMap& input);

// The exact convolutional kernel of eq. (1) between two maps xi_0 of one shape, with the patches of `layer` (size, mean
// subtraction) as phi(z) and its sigma; distances between locations in pixels, beta likewise.
double ExactConvolutionalKernel(const Layer& layer, double beta, const FeatureMap& a, const FeatureMap& b);

}  // namespace ckn
