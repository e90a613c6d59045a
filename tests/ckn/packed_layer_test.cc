#include "server/ckn/packed_layer.h"

#include "gtest/gtest.h"

namespace ckn {
namespace {

struct Shape {
  int patch_size, channels, filters;
  int side;  // of the map
  float sigma = 0.5F;
};

PatchSource SourceOf(const Shape& shape, Precision precision = Precision::kFloat32) {
  Layer layer;
  layer.patch_size = shape.patch_size;
  layer.in_channels = shape.channels;
  layer.subsampling = layer.pooling_radius = 2;
  layer.sigma = shape.sigma;
  layer.filters = RowMatrixF::Random(shape.filters, layer.patch_dim());
  layer.eta.setOnes(shape.filters);
  return PackLayer(layer, {shape.side, shape.side, shape.channels}, precision).source;
}

TEST(PackedLayerTest, ThePapersSecondLayersUseTiles) {
  EXPECT_EQ(SourceOf({3, 12, 50, 14}), PatchSource::kTiles);    // CKN-GM1
  EXPECT_EQ(SourceOf({3, 12, 400, 14}), PatchSource::kTiles);   // CKN-GM2
  EXPECT_EQ(SourceOf({2, 50, 200, 12}), PatchSource::kTiles);   // CKN-PM2
  EXPECT_EQ(SourceOf({2, 12, 800, 16}), PatchSource::kTiles);   // CKN-GM of CIFAR-10
  EXPECT_EQ(SourceOf({2, 100, 800, 16}), PatchSource::kTiles);  // CKN-PM of CIFAR-10
}

TEST(PackedLayerTest, LayersThatGainNothingReadThePatchesOfTheMap) {
  EXPECT_EQ(SourceOf({5, 12, 50, 14}), PatchSource::kMap) << "no transform";
  EXPECT_EQ(SourceOf({2, 3, 100, 32}), PatchSource::kMap) << "few channels";
  EXPECT_EQ(SourceOf({2, 64, 16, 32}), PatchSource::kMap) << "few filters";
  EXPECT_EQ(SourceOf({2, 64, 128, 5}), PatchSource::kMap) << "most of the tiles lies outside";
  EXPECT_EQ(SourceOf({2, 400, 800, 4}), PatchSource::kMap) << "a large bank for one tile";
  EXPECT_EQ(SourceOf({2, 2048, 2048, 8}), PatchSource::kMap) << "a large bank for nine tiles";
}

TEST(PackedLayerTest, LayersThatNeedExactSumsReadThePatchesOfTheMap) {
  EXPECT_EQ(SourceOf({2, 50, 200, 12, 0.39F}), PatchSource::kMap);
  EXPECT_EQ(SourceOf({3, 12, 200, 14, 0.39F}), PatchSource::kTiles);
  EXPECT_EQ(SourceOf({3, 12, 200, 14, 0.19F}), PatchSource::kMap);
  EXPECT_EQ(SourceOf({3, 12, 200, 14}, Precision::kBfloat16), PatchSource::kMap);
}

}  // namespace
}  // namespace ckn
