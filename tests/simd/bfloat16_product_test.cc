#include "server/simd/bfloat16_product.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "server/simd/aligned_floats.h"
#include "server/simd/amx_tiles.h"
#include "server/simd/target.h"

namespace ckn {
namespace {

std::uint16_t Half(float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16); }
float Number(std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16); }

// What AMX does, by its description.
struct TilesInSoftware {
  struct Tile {
    std::uint32_t rows[16][16];
  };
  inline static Tile tiles[8];

  template <int t>
  static void Zero() {
    tiles[t] = {};
  }
  template <int t>
  static void Load(const void* from, std::size_t stride) {
    for (std::size_t i = 0; i < 16; ++i) std::memcpy(tiles[t].rows[i], static_cast<const char*>(from) + i * stride, 64);
  }
  template <int c, int a, int b>
  static void Dot() {
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t k = 0; k < 16; ++k) {
        for (std::size_t j = 0; j < 16; ++j) {
          const std::uint32_t x = tiles[a].rows[i][k], y = tiles[b].rows[k][j];
          auto sum = std::bit_cast<float>(tiles[c].rows[i][j]);
          sum += std::bit_cast<float>(x << 16) * std::bit_cast<float>(y << 16);
          sum += std::bit_cast<float>(x & 0xFFFF0000) * std::bit_cast<float>(y & 0xFFFF0000);
          tiles[c].rows[i][j] = std::bit_cast<std::uint32_t>(sum);
        }
      }
    }
  }
  template <int t>
  static void Store(void* to, std::size_t stride) {
    for (std::size_t i = 0; i < 16; ++i) std::memcpy(static_cast<char*>(to) + i * stride, tiles[t].rows[i], 64);
  }
};

// Every number of patches around the widths of tiles; runs that overlap, as those of neighbouring patches do.
template <typename Product>
void ExpectTheSumsOfPairs(Product product, std::size_t run_pairs) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int vectors = 1; vectors <= 4; ++vectors) {
    for (const std::size_t stride : {1U, 6U, 33U}) {
      for (const std::size_t count : {1U, 2U, 11U, 15U, 16U, 17U, 31U, 32U, 33U, 48U, 65U}) {
        const std::size_t width = static_cast<std::size_t>(vectors) * kBfloat16Lanes;
        std::vector<std::size_t> pairs;
        for (const std::size_t run : {0U, 70U}) {
          for (std::size_t k = 0; k < run_pairs; ++k) pairs.push_back(run + 2 * k);
        }
        std::vector<std::uint16_t> map((count + 2 * kTilePatches) * stride + 70 + 2 * run_pairs);
        for (std::uint16_t& half : map) half = Half(uniform(rng));
        AlignedFloats weights, sums;
        weights.Reserve(pairs.size() * width);
        sums.Reserve((count + kTilePatches) * width);
        std::vector<std::uint16_t> halves(2 * pairs.size() * width);
        for (std::uint16_t& half : halves) half = Half(uniform(rng));
        std::memcpy(weights.data(), halves.data(), 2 * halves.size());
        product(Bfloat16Patches{map.data(), stride, pairs, count}, weights.data(), vectors, sums.data());
        for (std::size_t i = 0; i < count; ++i) {
          for (std::size_t l = 0; l < width; ++l) {
            double expected = 0;
            for (std::size_t k = 0; k < pairs.size(); ++k) {
              for (std::size_t e = 0; e < 2; ++e) {
                expected += static_cast<double>(Number(map[i * stride + pairs[k] + e])) *
                            Number(halves[2 * (k * width + l) + e]);
              }
            }
            ASSERT_NEAR(sums.data()[i * width + l], expected, 2e-5)
                << vectors << " vectors, stride " << stride << ", patch " << i << " of " << count << ", filter " << l;
          }
        }
      }
    }
  }
}

TEST(Bfloat16ProductTest, Avx512SumsPairs) {
  if (ChosenBfloat16Unit() < Bfloat16Unit::kAvx512) GTEST_SKIP() << "NOT TESTED: no AVX512_BF16 on this machine";
  for (const std::size_t run_pairs : {1U, 3U, 18U}) ExpectTheSumsOfPairs(SumPairs, run_pairs);
}

TEST(Bfloat16ProductTest, TilesSumPairs) {
  for (const std::size_t run_pairs : {kTilePairs, 2 * kTilePairs}) {
    ExpectTheSumsOfPairs(AmxProduct<TilesInSoftware>::Run, run_pairs);
  }
}

TEST(Bfloat16ProductTest, AmxSumsPairs) {
  if (ChosenBfloat16Unit() < Bfloat16Unit::kAmx) GTEST_SKIP() << "NOT TESTED: no AMX_BF16 on this machine";
  for (const std::size_t run_pairs : {kTilePairs, 2 * kTilePairs}) ExpectTheSumsOfPairs(SumPairsAmx, run_pairs);
}

}  // namespace
}  // namespace ckn
