#include "server/simd/bfloat16.h"

#include <bit>
#include <cstdint>

namespace ckn {

// Without branches, which compilers then vectorise; a pass over a map costs little beside its products.
void RoundToBfloat16(const float* from, std::size_t n, float* to) {
  constexpr std::uint32_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000, kKept = 0xFFFF0000, kBelowHalf = 0x7FFF;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (bits + kBelowHalf + ((bits >> 16) & 1)) & kKept;
    to[i] = std::bit_cast<float>((bits & kMagnitude) > kInfinity ? bits : rounded);
  }
}

void PackBfloat16(const float* from, std::size_t n, std::uint16_t* to) {
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(from[i]) >> 16);
}

}  // namespace ckn
