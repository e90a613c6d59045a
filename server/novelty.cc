#include "server/novelty.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ckn {
namespace {

constexpr std::size_t kMaxQuantiles = 1001;

}  // namespace

std::vector<float> ResidualQuantiles(std::vector<float> residuals) {
  assert(!residuals.empty());
  std::sort(residuals.begin(), residuals.end());
  if (residuals.size() <= kMaxQuantiles) return residuals;
  std::vector<float> quantiles(kMaxQuantiles);
  for (std::size_t i = 0; i < kMaxQuantiles; ++i) {
    const double at =
        static_cast<double>(i) * static_cast<double>(residuals.size() - 1) / static_cast<double>(kMaxQuantiles - 1);
    quantiles[i] = residuals[static_cast<std::size_t>(std::llround(at))];
  }
  return quantiles;
}

Novelty RankResidual(std::span<const float> quantiles, float residual) {
  assert(!quantiles.empty());
  // The first quantile that is not smaller.
  const auto next = std::lower_bound(quantiles.begin(), quantiles.end(), residual);
  if (next == quantiles.begin()) return {residual, 0};
  if (next == quantiles.end()) return {residual, 1};
  const float below = *(next - 1);
  const auto steps = static_cast<float>(next - 1 - quantiles.begin()) + (residual - below) / (*next - below);
  return {residual, steps / static_cast<float>(quantiles.size() - 1)};
}

}  // namespace ckn
