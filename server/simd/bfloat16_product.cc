#include "server/simd/bfloat16_product.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "hwy/base.h"

#if HWY_ARCH_X86_64

#include <immintrin.h>

namespace ckn {
namespace {

constexpr int kMaxPatches = 12;    // as far as the loops below unroll, and up to 4 vectors
constexpr int kAccumulators = 24;  // registers of sums

// The loops below are code for these instructions and run where there are such only (target.h). No inline function of a
// library is called in them, of which another copy might be taken elsewhere.
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512bf16")

template <int kPatches, int kVectors>
HWY_NOINLINE void SumSome(const Bfloat16Patches& patches, std::size_t begin, const float* HWY_RESTRICT weights,
                          float* HWY_RESTRICT sums) {
  __m512 sum[kPatches][kVectors];
  for (auto& of_patch : sum) {
    for (__m512& value : of_patch) value = _mm512_setzero_ps();
  }
  const std::uint16_t* const first = patches.first + begin * patches.stride;
  const std::size_t* HWY_RESTRICT pairs = patches.pairs.data();
  const std::size_t count = patches.pairs.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint16_t* HWY_RESTRICT pair = first + pairs[k];
    __m512i w[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) w[v] = _mm512_load_si512(weights + 16 * v);
    HWY_UNROLL(12)
    for (int i = 0; i < kPatches; ++i) {
      int both;
      std::memcpy(&both, pair + static_cast<std::size_t>(i) * patches.stride, sizeof(both));
      const __m512i x = _mm512_set1_epi32(both);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        sum[i][v] = _mm512_dpbf16_ps(sum[i][v], reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w[v]));
      }
    }
    weights += 16 * kVectors;
  }
  HWY_UNROLL(12)
  for (int i = 0; i < kPatches; ++i) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(sums + 16 * (i * kVectors + v), sum[i][v]);
  }
}

HWY_POP_ATTRIBUTES

// `count` patches, at most kPatches.
template <int kPatches, int kVectors>
void SumSomeOf(std::size_t count, const Bfloat16Patches& patches, std::size_t begin, const float* weights,
               float* sums) {
  if constexpr (kPatches > 1) {
    if (count < kPatches) return SumSomeOf<kPatches - 1, kVectors>(count, patches, begin, weights, sums);
  }
  SumSome<kPatches, kVectors>(patches, begin, weights, sums);
}

template <int kVectors>
void Sum(const Bfloat16Patches& patches, const float* weights, float* sums) {
  constexpr int kMost = std::min(kAccumulators / kVectors, kMaxPatches);
  const std::size_t parts = (patches.count + kMost - 1) / kMost;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = patches.count * part / parts, end = patches.count * (part + 1) / parts;
    SumSomeOf<kMost, kVectors>(end - begin, patches, begin, weights, sums + begin * kVectors * kBfloat16Lanes);
  }
}

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16")

// All registers are 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// In assembler, since intrinsics take no template parameter for a register.
struct AmxUnit {
  template <int t>
  static HWY_INLINE void Zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(t));
  }
  template <int t>
  static HWY_INLINE void Load(const void* from, std::size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(t) : "memory");
  }
  template <int c, int a, int b>
  static HWY_INLINE void Dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
  template <int t>
  static HWY_INLINE void Store(void* to, std::size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(t) : "memory");
  }
};

}  // namespace
}  // namespace ckn

// Here, for the instructions above.
#include "server/simd/amx_tiles.h"

namespace ckn {
namespace {

void SumOnTiles(const Bfloat16Patches& patches, const float* weights, int vectors, float* sums) {
  static constexpr TileConfig kConfig;
  asm volatile("ldtilecfg %0" ::"m"(kConfig));
  AmxProduct<AmxUnit>::Run(patches, weights, vectors, sums);
  // The state of the tiles is 8 KiB that the system need not save for a thread that has released them.
  asm volatile("tilerelease" ::: "memory");
}

HWY_POP_ATTRIBUTES

}  // namespace

void SumPairs(const Bfloat16Patches& patches, const float* weights, int vectors, float* sums) {
  switch (vectors) {
    case 1:
      return Sum<1>(patches, weights, sums);
    case 2:
      return Sum<2>(patches, weights, sums);
    case 3:
      return Sum<3>(patches, weights, sums);
    default:
      return Sum<4>(patches, weights, sums);
  }
}

void SumPairsAmx(const Bfloat16Patches& patches, const float* weights, int vectors, float* sums) {
  SumOnTiles(patches, weights, vectors, sums);
}

}  // namespace ckn

#else

namespace ckn {

// There is no such unit.
void SumPairs(const Bfloat16Patches& /*patches*/, const float* /*weights*/, int /*vectors*/, float* /*sums*/) {
  assert(false);
}
void SumPairsAmx(const Bfloat16Patches& /*patches*/, const float* /*weights*/, int /*vectors*/, float* /*sums*/) {
  assert(false);
}

}  // namespace ckn

#endif
