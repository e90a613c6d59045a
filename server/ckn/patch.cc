#include "server/ckn/patch.h"

#include <algorithm>
#include <cmath>

namespace ckn {

float ExtractPatch(const FeatureMap& map, int y, int x, int patch_size, bool subtract_mean, float* out) {
  const std::size_t row = static_cast<std::size_t>(patch_size) * map.channels;
  for (int i = 0; i < patch_size; ++i) std::copy_n(map.At(y + i, x), row, out + i * row);

  const std::size_t size = row * patch_size;
  if (subtract_mean) {
    for (int channel = 0; channel < map.channels; ++channel) {
      float sum = 0;
      for (std::size_t i = channel; i < size; i += map.channels) sum += out[i];
      const float mean = sum / static_cast<float>(patch_size * patch_size);
      for (std::size_t i = channel; i < size; i += map.channels) out[i] -= mean;
    }
  }
  return Norm(out, size);
}

float SquaredNorm(const float* v, std::size_t n) {
  // Eight partial sums keep the compiler's vector units busy without reordering anything at run time.
  float partial[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) partial[lane] += v[i + lane] * v[i + lane];
  }
  float sum = 0;
  for (; i < n; ++i) sum += v[i] * v[i];
  for (const float value : partial) sum += value;
  return sum;
}

float Norm(const float* v, std::size_t n) { return std::sqrt(SquaredNorm(v, n)); }

}  // namespace ckn
