#include "server/simd/patch_norms.h"

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/simd_targets.h"

namespace ckn {
namespace {

using ::ckn::testing::ForEachTarget;

TEST(PatchNormsTest, MatchPlainSumsForEveryShapeOnEveryTarget) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  ForEachTarget([&] {
    for (const int channels : {1, 2, 3, 4, 5, 12, 16, 23, 50}) {
      for (const int width : {5, 8, 16, 17, 33}) {
        for (const int patch_size : {1, 2, 5}) {
          const int height = 7;
          std::vector<float> map(static_cast<std::size_t>(height * width * channels));
          for (float& value : map) value = normal(rng);
          const int rows = height - patch_size + 1, columns = width - patch_size + 1;
          std::vector<float> got(static_cast<std::size_t>(rows * columns) + kPatchSlack);
          AlignedFloats scratch;
          PatchNorms(map.data(), height, width, channels, patch_size, scratch, got.data());
          for (int y = 0; y < rows; ++y) {
            for (int x = 0; x < columns; ++x) {
              double sum = 0;
              for (int i = 0; i < patch_size; ++i) {
                for (int k = 0; k < patch_size * channels; ++k) {
                  const double value = map[static_cast<std::size_t>(((y + i) * width + x) * channels + k)];
                  sum += value * value;
                }
              }
              ASSERT_NEAR(got[static_cast<std::size_t>(y * columns + x)], std::sqrt(sum), 1e-6 * std::sqrt(sum))
                  << channels << " channels, width " << width << ", patch size " << patch_size << ", patch " << y << ","
                  << x;
            }
          }
        }
      }
    }
  });
}

TEST(PatchNormsTest, FoldedNormsAreThoseOfTheNormalisedPatchOnEveryTarget) {
  constexpr float kA = 3, kEpsilon = 0.25F;
  const std::vector<float> norm = {0, 0.1F, 0.2499F, 0.25F, 0.3F, 1, 7};
  ForEachTarget([&] {
    std::vector<float> padded = norm;
    padded.resize(norm.size() + kPatchSlack);
    std::vector<float> slope(padded.size()), offset(padded.size());
    FoldNorms(kA, kEpsilon, padded.data(), norm.size(), slope.data(), offset.data());
    for (std::size_t i = 0; i < norm.size(); ++i) {
      // -a ||psi / rho - w||^2 with rho = max(norm, epsilon) is slope (w . psi) + offset - a (1 + ||w||^2).
      const double rho = std::max(norm[i], kEpsilon);
      const double unit = norm[i] / rho;
      EXPECT_NEAR(slope[i], 2 * kA / rho, 1e-5) << norm[i];
      EXPECT_NEAR(offset[i], kA * (1 - unit * unit), 1e-6) << norm[i];
    }
  });
}

}  // namespace
}  // namespace ckn
