#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/helpers.h"
#include "server/ckn/encoder.h"
#include "tests/testing/count_allocations.h"

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

// Finds nobody to help.
class Alone : public Helpers {
 public:
  void Share(std::size_t count, absl::FunctionRef<void(std::size_t i)> body) override {
    ++loops;
    SharedLoop(count, body).Run();
  }
  int loops = 0;
};

// Also of the layers that are shared, and of every way to the patches: in the map, centred, whitened, in tiles.
TEST(AllocationTest, EncodingAsksForNoMemoryOnceTheThreadHasSeenAnImage) {
  for (const MapShape& shape : {MapShape{32, 24, 1}, MapShape{32, 24, 2}, MapShape{96, 96, 3}}) {
    for (const char* const kind : {"plain", "centred", "whitened", "projected"}) {
      const std::string patches = kind;
      Layer first = MakeLayer(3, shape.channels, 48, patches != "plain");
      if (patches == "whitened") first.whitening.setIdentity(first.patch_dim(), first.patch_dim());
      if (patches == "projected") first.projection.setIdentity(48, 48);
      const auto precision = patches == "centred" ? Precision::kBfloat16 : Precision::kFloat32;
      const absl::StatusOr<Encoder> encoder = Encoder::Create({first, MakeLayer(2, 48, 100, false)}, shape, precision);
      ASSERT_TRUE(encoder.ok()) << encoder.status();
      const FeatureMap map(shape.height, shape.width, shape.channels);
      std::vector<float> features(static_cast<std::size_t>(encoder->feature_count()));
      Alone helpers;
      const Helpers::Scope scope(&helpers);
      float residual = 0;
      encoder->Encode(map, features, &residual);
      const int before = ::ckn::testing::Allocations();
      EXPECT_GT(before, 0);
      for (int i = 0; i < 3; ++i) encoder->Encode(map, features, &residual);
      EXPECT_EQ(::ckn::testing::Allocations(), before) << patches << ", " << shape.channels << " channels";
      EXPECT_EQ(helpers.loops > 0, shape.height == 96);
    }
  }
}

}  // namespace
}  // namespace ckn
