#pragma once

#include <cstddef>

#include "server/base/feature_map.h"

namespace ckn {

// Copies psi(z), the patch whose upper left corner is (y, x), into out [patch_size][patch_size][channels], less each
// channel's mean over the patch if subtract_mean. Returns ||psi(z)||_2.
float ExtractPatch(const FeatureMap& map, int y, int x, int patch_size, bool subtract_mean, float* out);

// ||v||_2^2 and ||v||_2 of n numbers. The order of the sum does not depend on the machine.
float SquaredNorm(const float* v, std::size_t n);
float Norm(const float* v, std::size_t n);

}  // namespace ckn
