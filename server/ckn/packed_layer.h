#pragma once

#include <cstddef>
#include <vector>

#include "server/ckn/layer.h"
#include "server/ckn/precision.h"
#include "server/simd/bfloat16_product.h"
#include "server/simd/filter_bank.h"

namespace ckn {

// What the products of a layer read.
enum class PatchSource {
  kMap,    // patches where they lie
  kCopy,   // patches that have been copied out, centred or whitened
  kTiles,  // transformed tiles of the map (winograd.h)
};

// What a layer needs at run time, computed once. With u = w . psi, rho = ||psi|| and a = log2(e) / sigma^2, eq. (zeta)
// is
//   rho * sqrt(eta) * exp(-||psi / rho - w||^2 / sigma^2) = rho * 2^((2 a / rho) u + bias),
//   bias = -a (1 + ||w||^2) + log2(eta) / 2,
// so an activation costs one product and one exponential.
struct PackedLayer {
  FilterBank bank;
  std::vector<float> pooling;         // [2 * radius + 1]
  std::vector<std::size_t> elements;  // of PatchRows
  float a = 0;
  PatchSource source = PatchSource::kMap;
  Bfloat16Unit unit = Bfloat16Unit::kNone;  // kNone: products in single precision
};

// `layer` is valid and fits a map of the shape `below`.
PackedLayer PackLayer(const Layer& layer, const MapShape& below, Precision precision);

}  // namespace ckn
