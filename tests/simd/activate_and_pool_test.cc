#include "server/simd/activate_and_pool.h"

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/simd_targets.h"

namespace ckn {
namespace {

using ::ckn::testing::ForEachTarget;

// One activation each, nothing pooled: 2^min(t, limit) for each t.
std::vector<float> PowersOfTwo(const std::vector<float>& t, float limit = 127) {
  const auto n = t.size();
  const std::vector<float> ones(n, 1.0F), zeros(n, 0.0F);
  const float tap = 1;
  const std::size_t only = 0;
  PatchRows rows;
  rows.patches = t.data();
  rows.patch_stride = 1;
  rows.elements = {&only, 1};
  rows.rows = 1;
  rows.columns = static_cast<int>(n);
  rows.slope = rows.norm = ones.data();
  rows.offset = zeros.data();
  const FilterBank bank({RowMatrixF::Ones(1, 1), Eigen::VectorXf::Zero(1), Eigen::VectorXf::Constant(1, limit)});
  const PoolingAxis vertical{1, 1, 0, &tap}, horizontal{static_cast<int>(n), 1, 0, &tap};
  AlignedFloats scratch;
  std::vector<float> out(n);
  for (const FilterBank::Block& block : bank.blocks()) {
    ActivateAndPool(bank, block, rows, vertical, horizontal, 1, scratch, out.data(), nullptr);
  }
  return out;
}

TEST(ActivateAndPoolTest, ExponentialIsExactToThreeRoundingsOnEveryTarget) {
  ForEachTarget([] {
    std::vector<float> t;
    for (int i = -125 * 64; i <= 60 * 64; ++i) t.push_back(static_cast<float>(i) / 64 + 0.003F);
    const std::vector<float> got = PowersOfTwo(t);
    for (std::size_t i = 0; i < t.size(); ++i) {
      const double expected = std::exp2(static_cast<double>(t[i]));
      ASSERT_NEAR(got[i], expected, 3e-7 * expected) << t[i];
    }
  });
}

TEST(ActivateAndPoolTest, ExponentialUnderflowsToZeroOnEveryTarget) {
  ForEachTarget([] {
    for (const float value : PowersOfTwo({-127, -149.5F, -150, -151, -1e4F, -1e30F})) EXPECT_EQ(value, 0);
  });
}

TEST(ActivateAndPoolTest, ExponentialStaysFiniteOnEveryTarget) {
  ForEachTarget([] {
    for (const float value : PowersOfTwo({127, 128, 1e5F, 1e30F})) EXPECT_EQ(value, 0x1p127F * 0x1.000002p+0F);
  });
}

TEST(ActivateAndPoolTest, ExponentsStayWithinTheFiltersLimitOnEveryTarget) {
  ForEachTarget([] {
    const std::vector<float> got = PowersOfTwo({2, 3, 4, 1e5F}, 3);
    EXPECT_THAT(got, ::testing::Pointwise(::testing::FloatEq(), {4, 8, 8, 8}));
  });
}

// Every number of filters around the widths of blocks, every number of columns around those of tiles.
TEST(ActivateAndPoolTest, EveryFilterAndColumnIsThereOnEveryTarget) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  constexpr int kDim = 5, kSubsampling = 2, kRadius = 2;
  const std::size_t elements[kDim] = {0, 1, 2, 3, 4};
  const float taps[] = {0.1F, 0.5F, 1, 0.5F, 0.1F};
  ForEachTarget([&] {
    for (const int p : {1, 3, 4, 7, 16, 17, 33, 50, 97, 130}) {
      for (const int columns : {1, 2, 7, 8, 9, 16, 23}) {
        RowMatrixF filters(p, kDim);
        for (float& value : filters.reshaped()) value = uniform(rng);
        const Eigen::VectorXf bias = Eigen::VectorXf::Random(p);
        const int row_count = 3;
        const auto places = static_cast<std::size_t>(row_count * columns);
        std::vector<float> patches(places * kDim), slope(places), offset(places), norm(places);
        for (auto* values : {&patches, &slope, &offset, &norm}) {
          for (float& value : *values) value = uniform(rng);
        }
        PatchRows rows;
        rows.patches = patches.data();
        rows.row_stride = static_cast<std::size_t>(columns) * kDim;
        rows.patch_stride = kDim;
        rows.elements = elements;
        rows.first_row = 4;  // of a larger map
        rows.rows = row_count;
        rows.columns = columns;
        rows.slope = slope.data();
        rows.offset = offset.data();
        rows.norm = norm.data();
        const PoolingAxis vertical{6, kSubsampling, kRadius, taps};
        const PoolingAxis horizontal{(columns + 1) / 2, kSubsampling, kRadius, taps};
        const auto outputs = static_cast<std::size_t>(vertical.size * horizontal.size * p);
        std::vector<float> got(outputs, 1.0F);  // it adds to what is there
        std::vector<double> expected(outputs, 1.0);
        const FilterBank bank({filters, bias, Eigen::VectorXf::Constant(p, 127)});
        AlignedFloats scratch;
        double energy = 1;  // it adds to that, too
        for (const FilterBank::Block& block : bank.blocks()) {
          ActivateAndPool(bank, block, rows, vertical, horizontal, p, scratch, got.data(), &energy);
        }
        double expected_energy = 1;
        for (int row = 0; row < row_count; ++row) {
          for (int x = 0; x < columns; ++x) {
            const auto at = static_cast<std::size_t>(row * columns + x);
            for (int l = 0; l < p; ++l) {
              double u = 0;
              for (int k = 0; k < kDim; ++k) u += static_cast<double>(patches[at * kDim + k]) * filters(l, k);
              const double activation = norm[at] * std::exp2(slope[at] * u + offset[at] + bias[l]);
              expected_energy += activation * activation;
              for (int i = 0; i < vertical.size; ++i) {
                for (int j = 0; j < horizontal.size; ++j) {
                  const int dy = row + 4 - 2 * i, dx = x - 2 * j;
                  if (std::abs(dy) > kRadius || std::abs(dx) > kRadius) continue;
                  expected[static_cast<std::size_t>((i * horizontal.size + j) * p + l)] +=
                      activation * taps[dy + kRadius] * taps[dx + kRadius];
                }
              }
            }
          }
        }
        ASSERT_NEAR(energy, expected_energy, 3e-6 * expected_energy) << "p " << p << " columns " << columns;
        for (std::size_t i = 0; i < outputs; ++i) {
          ASSERT_NEAR(got[i], expected[i], 3e-6 * (1 + std::abs(expected[i]))) << "p " << p << " columns " << columns;
        }
      }
    }
  });
}

// Around the widths of blocks, and of maps with rows of few tiles and of more than are computed at a time; from the
// second row of tiles on, as for a band of a map.
TEST(ActivateAndPoolTest, TilesGiveWhatPatchesGiveOnEveryTarget) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  constexpr int kChannels = 9, kHeight = 13;
  const float taps[] = {0.1F, 0.5F, 1, 0.5F, 0.1F};
  ForEachTarget([&] {
    for (const int patch_size : {2, 3}) {
      const int side = TileOutputs(patch_size);
      for (const int p : {1, 16, 33, 97}) {
        for (const int width : {4, 13, 131}) {
          FeatureMap map(kHeight, width, kChannels);
          Filters filters{RowMatrixF(p, patch_size * patch_size * kChannels), Eigen::VectorXf::Random(p),
                          Eigen::VectorXf::Constant(p, 127)};
          PatchRows rows;
          rows.first_row = side;
          rows.rows = kHeight - patch_size + 1 - side;
          rows.columns = width - patch_size + 1;
          const auto places = static_cast<std::size_t>(rows.rows * rows.columns);
          std::vector<float> slope(places), offset(places), norm(places);
          for (auto* values : {&map.values, &slope, &offset, &norm}) {
            for (float& value : *values) value = uniform(rng);
          }
          for (float& value : filters.weights.reshaped()) value = 0.2F * uniform(rng);
          rows.slope = slope.data();
          rows.offset = offset.data();
          rows.norm = norm.data();
          const PoolingAxis vertical{kHeight / 2, 2, 2, taps}, horizontal{(rows.columns + 1) / 2, 2, 2, taps};
          const auto pooled = [&](const FilterBank& bank, double* energy) {
            std::vector<float> out(static_cast<std::size_t>(vertical.size * horizontal.size * p), 1.0F);
            AlignedFloats scratch;
            for (const FilterBank::Block& block : bank.blocks()) {
              ActivateAndPool(bank, block, rows, vertical, horizontal, p, scratch, out.data(), energy);
            }
            return out;
          };

          std::vector<std::size_t> elements;
          for (int i = 0; i < patch_size; ++i) {
            for (int j = 0; j < patch_size * kChannels; ++j) {
              elements.push_back(static_cast<std::size_t>(i * width * kChannels + j));
            }
          }
          rows.patches = map.At(rows.first_row, 0);
          rows.row_stride = static_cast<std::size_t>(width) * kChannels;
          rows.patch_stride = kChannels;
          rows.elements = elements;
          double expected_energy = 0;
          const std::vector<float> expected = pooled(FilterBank(filters), &expected_energy);

          rows.grid = TileGrid(side, rows.rows, rows.columns, kChannels);
          std::vector<float> tiles(rows.grid.size());
          AlignedFloats scratch;
          for (int row = 0; row < rows.grid.rows; ++row) TransformTiles(map, 1, rows.grid, row, scratch, tiles.data());
          rows.tiles = tiles.data();
          rows.elements = rows.elements.first(kChannels);
          double energy = 0;
          const std::vector<float> got = pooled(FilterBank::OfTiles(filters, patch_size), &energy);
          ASSERT_NEAR(energy, expected_energy, 1e-5 * expected_energy) << "p " << p << " width " << width;
          for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_NEAR(got[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << "p " << p << " width " << width;
          }
        }
      }
    }
  });
}

TEST(PoolingAxisTest, ReachesTheOutputsWithinTheRadius) {
  const PoolingAxis axis{4, 3, 3, nullptr};  // centres 1, 4, 7, 10
  using Range = std::pair<int, int>;
  EXPECT_EQ(axis.Reached(0, 0), Range(0, 0));
  EXPECT_EQ(axis.Reached(1, 1), Range(0, 1));
  EXPECT_EQ(axis.Reached(4, 4), Range(0, 2));
  EXPECT_EQ(axis.Reached(5, 5), Range(1, 2));
  EXPECT_EQ(axis.Reached(0, 11), Range(0, 3));
  const PoolingAxis points{2, 4, 0, nullptr};  // centres 1, 5
  EXPECT_EQ(points.Reached(1, 1), Range(0, 0));
  EXPECT_GT(points.Reached(2, 4).first, points.Reached(2, 4).second);
  EXPECT_GT(points.Reached(0, 0).first, points.Reached(0, 0).second);
}

}  // namespace
}  // namespace ckn
