#pragma once

#include <cstddef>

#include "server/simd/aligned_floats.h"

// What the activation of a patch needs besides its product with the filters, from its norm alone.
namespace ckn {

// Places behind the last patch that the loops below may write to.
inline constexpr std::size_t kPatchSlack = 64;

// norm[i] = ||psi|| of the patch_size x patch_size patches of a map [height][width][channels], [rows][columns] of them.
// `scratch` grows to two numbers a pixel.
void PatchNorms(const float* map, int height, int width, int channels, int patch_size, AlignedFloats& scratch,
                float* norm);

// slope[i] and offset[i] in PatchRows of `count` patches with these norms, a = log2(e) / sigma^2. Below the floor
// epsilon psi / epsilon is no unit vector, and its norm has a part in the exponent.
void FoldNorms(float a, float epsilon, const float* norm, std::size_t count, float* slope, float* offset);

}  // namespace ckn
