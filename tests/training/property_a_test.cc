// Property (A) of the paper: the inner product of the last maps approaches the convolutional kernel of eq. (1).
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "server/ckn/encoder.h"
#include "server/ckn/kernel_map_slow.h"
#include "server/training/layer_learner.h"

namespace ckn {
namespace {

constexpr int kSize = 20;
constexpr int kImages = 12;

// Smooth blobs on a blank border: eq. (1) sums over the whole plane, the sampled one over the image only, so nothing
// may happen near the edge.
FeatureMap Blob(unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> uniform(0, 1);
  FeatureMap map(kSize, kSize, 1);
  const float cx = 8 + 4 * uniform(rng), cy = 8 + 4 * uniform(rng), sx = 1 + 2 * uniform(rng),
              sy = 1 + 2 * uniform(rng);
  for (int y = 6; y < kSize - 6; ++y) {
    for (int x = 6; x < kSize - 6; ++x) {
      const float dx = (static_cast<float>(x) - cx) / sx, dy = (static_cast<float>(y) - cy) / sy;
      map.At(y, x)[0] = std::exp(-0.5F * (dx * dx + dy * dy));
    }
  }
  return map;
}

// Root mean square of <xi, xi'> - K over all pairs of images, relative to that of K.
double RelativeError(int filters) {
  ThreadPool pool(2);
  LayerPlan plan;
  plan.filters = filters;
  plan.sigma = 0.5;
  plan.layer.patch_size = 3;
  plan.layer.in_channels = 1;
  plan.layer.subsampling = 2;
  plan.layer.pooling_radius = kSize;  // the whole sum of eq. (xi)
  LearningOptions options;
  options.pairs = 4000;
  options.iterations = 300;
  const absl::StatusOr<LearnedLayer> learned = LearnLayer(
      plan, 200, [](std::size_t i, int) { return Blob(1000 + static_cast<unsigned>(i)); }, options, 1, 1,
      LayerCheckpoint{}, pool, Progress{});
  EXPECT_TRUE(learned.ok()) << learned.status();
  const absl::StatusOr<Encoder> encoder = Encoder::Create({learned->layer}, {kSize, kSize, 1});
  EXPECT_TRUE(encoder.ok());
  std::vector<Eigen::VectorXf> features;
  for (unsigned i = 0; i < kImages; ++i) {
    features.emplace_back(encoder->feature_count());
    encoder->Encode(Blob(i), {features.back().data(), static_cast<std::size_t>(features.back().size())});
  }
  double error = 0, energy = 0;
  for (unsigned i = 0; i < kImages; ++i) {
    for (unsigned j = 0; j <= i; ++j) {
      const double exact = ExactConvolutionalKernel(learned->layer, plan.layer.subsampling, Blob(i), Blob(j));
      const double approximate = features[i].cast<double>().dot(features[j].cast<double>());
      error += (approximate - exact) * (approximate - exact);
      energy += exact * exact;
    }
  }
  return std::sqrt(error / energy);
}

TEST(PropertyATest, InnerProductsApproachTheExactKernelAsFiltersGrow) {
  const double few = RelativeError(2), some = RelativeError(8), many = RelativeError(64);
  RecordProperty("relative_error_2_8_64", testing::PrintToString(std::vector<double>{few, some, many}));
  std::printf("relative error with 2, 8, 64 filters: %.4f %.4f %.4f\n", few, some, many);
  EXPECT_LT(some, few);
  EXPECT_LT(many, some);
  EXPECT_LT(many, 0.03);
}

}  // namespace
}  // namespace ckn
