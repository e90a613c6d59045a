#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace ckn {

// The generators of the standard library are specified bit for bit, its distributions are not: these are.
using Rng = std::mt19937_64;

// An independent generator for one use, told apart by up to two numbers (a layer, an image).
inline Rng MakeRng(std::uint64_t seed, std::uint64_t stream, std::uint64_t substream = 0) {
  std::seed_seq sequence{static_cast<std::uint32_t>(seed),      static_cast<std::uint32_t>(seed >> 32),
                         static_cast<std::uint32_t>(stream),    static_cast<std::uint32_t>(stream >> 32),
                         static_cast<std::uint32_t>(substream), static_cast<std::uint32_t>(substream >> 32)};
  return Rng(sequence);
}

// Uniform in [0, bound), bound >= 1. The bias of the multiplication, bound / 2^64, is far below any sample size here.
inline std::uint64_t UniformIndex(Rng& rng, std::uint64_t bound) {
  __extension__ using Uint128 = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Uint128>(rng()) * bound) >> 64);
}

// Fisher-Yates.
template <typename T>
void Shuffle(Rng& rng, std::vector<T>& items) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[UniformIndex(rng, i)]);
}

}  // namespace ckn
