#include "server/simd/winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/simd_targets.h"

namespace ckn {
namespace {

FeatureMap RandomMap(int height, int width, int channels) {
  std::mt19937 rng(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  FeatureMap map(height, width, channels);
  for (float& value : map.values) value = uniform(rng);
  return map;
}

// A^T, as in the paper for F(2, 3), and by the same points for F(3, 2).
double OutputFactor(int outputs, int i, int k) {
  constexpr double kTwo[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};
  constexpr double kThree[3][4] = {{1, 1, 1, 0}, {0, 1, -1, 0}, {0, 1, 1, -1}};
  return outputs == 2 ? kTwo[i][k] : kThree[i][k];
}

// Of a map of any size, also smaller than a tile, the products of whose transforms are the sums of its patches.
class WinogradTest : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(WinogradTest, TransformedTilesGiveTheSumsOfPatches) {
  const auto [patch_size, channels] = GetParam();
  const int side = TileOutputs(patch_size);
  ::ckn::testing::ForEachTarget([&, patch_size = patch_size, channels = channels] {
    for (const auto& [height, width] : {std::pair{3, 3}, {4, 4}, {5, 9}, {12, 7}}) {
      const FeatureMap map = RandomMap(height, width, channels);
      const FeatureMap filter = RandomMap(patch_size, patch_size, channels);
      const int rows = height - patch_size + 1, columns = width - patch_size + 1;
      const TileGrid grid(side, rows, columns, channels);
      EXPECT_EQ(grid.rows, (rows + side - 1) / side);
      EXPECT_EQ(grid.columns, (columns + side - 1) / side);
      std::vector<float> tiles(grid.size(), -1);
      AlignedFloats scratch;
      for (int row = 0; row < grid.rows; ++row) TransformTiles(map, 0, grid, row, scratch, tiles.data());
      std::vector<std::array<float, kTilePositions>> transformed;
      for (int c = 0; c < channels; ++c) {
        transformed.push_back(TransformFilter(filter.values.data() + c, channels, patch_size));
      }
      for (int y = 0; y < rows; ++y) {
        for (int x = 0; x < columns; ++x) {
          double expected = 0;
          for (int i = 0; i < patch_size; ++i) {
            for (int j = 0; j < patch_size; ++j) {
              for (int c = 0; c < channels; ++c) expected += map.At(y + i, x + j)[c] * filter.At(i, j)[c];
            }
          }
          double got = 0;
          const auto tile = static_cast<std::size_t>((y / side) * grid.columns + x / side);
          for (int i = 0; i < kTileSize; ++i) {
            for (int j = 0; j < kTileSize; ++j) {
              const auto position = static_cast<std::size_t>(i * kTileSize + j);
              double product = 0;
              for (std::size_t c = 0; c < transformed.size(); ++c) {
                product +=
                    tiles[position * grid.position_stride + tile * transformed.size() + c] * transformed[c][position];
              }
              got += OutputFactor(side, y % side, i) * OutputFactor(side, x % side, j) * product;
            }
          }
          ASSERT_NEAR(got, expected, 1e-6 * channels + 2e-6) << height << "x" << width << " at " << y << ", " << x;
        }
      }
    }
  });
}

// Channels around the widths of vectors.
INSTANTIATE_TEST_SUITE_P(PatchesAndChannels, WinogradTest,
                         ::testing::Combine(::testing::Values(2, 3), ::testing::Values(1, 3, 4, 7, 12, 16, 23)));

TEST(WinogradTest, OtherPatchesHaveNoTransform) {
  for (const int patch_size : {1, 4, 5, 9}) EXPECT_EQ(TileOutputs(patch_size), 0);
}

}  // namespace
}  // namespace ckn
