// A binary of its own: it counts what all of it asks for.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "gtest/gtest.h"
#include "server/ckn/encoder.h"

namespace {
std::atomic<int> allocations{0};
}  // namespace

// Not inlined: the compiler would take memory from malloc and the operators for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ckn {
namespace {

Layer MakeLayer(int patch_size, int channels, int filters, bool subtract_mean) {
  Layer layer;
  layer.patch_size = patch_size;
  layer.in_channels = channels;
  layer.subsampling = layer.pooling_radius = 2;
  layer.subtract_patch_mean = subtract_mean;
  layer.sigma = 0.7F;
  layer.filters = RowMatrixF::Random(filters, layer.patch_dim());
  layer.eta.setOnes(filters);
  return layer;
}

TEST(AllocationTest, EncodingAsksForNoMemoryOnceTheThreadHasSeenAnImage) {
  for (const bool subtract_mean : {false, true}) {
    const absl::StatusOr<Encoder> encoder =
        Encoder::Create({MakeLayer(3, 3, 20, subtract_mean), MakeLayer(2, 20, 50, false)}, {32, 24, 3});
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    const FeatureMap map(32, 24, 3);
    std::vector<float> features(static_cast<std::size_t>(encoder->feature_count()));
    encoder->Encode(map, features);
    const int before = allocations;
    EXPECT_GT(before, 0);
    for (int i = 0; i < 3; ++i) encoder->Encode(map, features);
    EXPECT_EQ(allocations, before);
  }
}

}  // namespace
}  // namespace ckn
