#include "server/ckn/encoder.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/helpers.h"
#include "server/ckn/kernel_map_slow.h"
#include "server/ckn/patch.h"
#include "server/simd/bfloat16.h"
#include "server/simd/bfloat16_product.h"
#include "server/simd/target.h"
#include "tests/testing/simd_targets.h"

namespace ckn {
namespace {

struct LayerParams {
  int patch_size, in_channels, filters, subsampling;
  int support = 1;
  bool subtract_mean = false;
  float sigma = 0.7F;
};

Layer RandomLayer(const LayerParams& params, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  Layer layer;
  layer.patch_size = params.patch_size;
  layer.in_channels = params.in_channels;
  layer.subsampling = params.subsampling;
  layer.pooling_radius = params.support * params.subsampling;
  layer.subtract_patch_mean = params.subtract_mean;
  layer.sigma = params.sigma;
  layer.filters.resize(params.filters, layer.patch_dim());
  for (Eigen::Index i = 0; i < layer.filters.size(); ++i) layer.filters.data()[i] = normal(rng);
  for (int l = 0; l < params.filters; ++l)
    layer.filters.row(l) *= (1 + 0.01F * static_cast<float>(l)) / layer.filters.row(l).norm();
  layer.eta.resize(params.filters);
  for (int l = 0; l < params.filters; ++l) layer.eta[l] = std::abs(normal(rng));
  return layer;
}

FeatureMap RandomMap(int height, int width, int channels, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> uniform(0, 1);
  FeatureMap map(height, width, channels);
  for (float& v : map.values) v = uniform(rng);
  return map;
}

Encoder MakeEncoder(const std::vector<Layer>& layers, const MapShape& input) {
  absl::StatusOr<Encoder> encoder = Encoder::Create(layers, input);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *std::move(encoder);
}

std::vector<float> Encode(const Encoder& encoder, const FeatureMap& map) {
  std::vector<float> out(encoder.feature_count());
  encoder.Encode(map, out);
  return out;
}

double RelativeError(const std::vector<float>& got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / largest;
}

struct TwinCase {
  int height, width, channels;
  std::vector<LayerParams> layers;
};

class EncoderTwinTest : public ::testing::TestWithParam<TwinCase> {};

TEST_P(EncoderTwinTest, MatchesTheDoublePrecisionTwin) {
  const TwinCase& param = GetParam();
  std::vector<Layer> layers;
  for (const LayerParams& layer : param.layers) layers.push_back(RandomLayer(layer, 7 + layers.size()));
  const FeatureMap map = RandomMap(param.height, param.width, param.channels, 3);
  const std::vector<double> expected = EncodeSlow(layers, map);
  ::ckn::testing::ForEachTarget([&] {
    const Encoder encoder = MakeEncoder(layers, {param.height, param.width, param.channels});
    EXPECT_LT(RelativeError(Encode(encoder, map), expected), 1e-5);
  });
}

INSTANTIATE_TEST_SUITE_P(OddSizes, EncoderTwinTest,
                         ::testing::Values(TwinCase{1, 1, 1, {{1, 1, 1, 1}}}, TwinCase{5, 9, 1, {{3, 1, 7, 2}}},
                                           TwinCase{7, 7, 3, {{2, 3, 17, 3, 1, true}}},
                                           TwinCase{28, 28, 2, {{1, 2, 12, 2}, {3, 12, 50, 3}}},
                                           TwinCase{13, 11, 3, {{3, 3, 5, 2, 2}, {2, 5, 9, 2, 3}, {1, 9, 6, 1}}},
                                           TwinCase{9, 31, 1, {{4, 1, 33, 5, 1, true, 0.5F}}},
                                           TwinCase{6, 6, 4, {{6, 4, 3, 1}}}, TwinCase{40, 420, 12, {{4, 12, 5, 3}}},
                                           TwinCase{40, 3, 1, {{3, 1, 8, 50}}}));

// Patches and filters enough for transformed tiles (winograd.h): maps of whole tiles and others, wide ones, several
// bands of rows.
INSTANTIATE_TEST_SUITE_P(Tiles, EncoderTwinTest,
                         ::testing::Values(TwinCase{4, 4, 8, {{2, 8, 32, 2}}}, TwinCase{4, 4, 8, {{3, 8, 32, 1}}},
                                           TwinCase{14, 14, 12, {{3, 12, 50, 3}}},
                                           TwinCase{16, 16, 20, {{2, 20, 100, 4, 1, false, 0.5F}}},
                                           TwinCase{12, 11, 9, {{2, 9, 40, 2, 1, false, 0.4F}, {3, 40, 33, 2}}},
                                           TwinCase{9, 300, 13, {{3, 13, 37, 3}}},
                                           TwinCase{60, 200, 16, {{2, 16, 32, 5}}}));

TEST(EncoderTest, BlackAndFaintPatchesAreExactForEverySigma) {
  for (const float sigma : {1e-3F, 0.03F, 0.1F, 0.8F, 30.0F}) {
    Layer layer = RandomLayer({2, 1, 6, 2}, 4);
    layer.sigma = sigma;
    layer.filters *= 0.3F;  // near enough to the origin that faint patches have activations to speak of
    FeatureMap map(8, 8, 1);
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 8; ++x) *map.At(y, x) = x < 3 ? 0 : x < 6 ? 1e-6F * static_cast<float>(y) : 0.5F;
    }
    const std::vector<float> got = Encode(MakeEncoder({layer}, {8, 8, 1}), map);
    const std::vector<double> expected = EncodeSlow({layer}, map);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(std::isfinite(got[i])) << sigma;
      EXPECT_NEAR(got[i], expected[i], 2e-3 * std::abs(expected[i]) + 1e-12) << sigma << " " << i;
    }
  }
}

// A tile's sums are exact to the last bits of its largest patch: those of a faint one beside it must not explode.
TEST(EncoderTest, FaintPatchesBesideBrightOnesAreExactInTiles) {
  for (const int patch_size : {2, 3}) {
    for (const float sigma : {patch_size == 2 ? 0.4F : 0.2F, 0.8F, 30.0F}) {
      for (const float faint : {1e-2F, 1e-4F, 1e-6F, 1e-12F, 0.0F}) {
        Layer layer = RandomLayer({patch_size, 8, 32, 1}, 4);
        layer.sigma = sigma;
        layer.filters.topRows(8) *= 0.1F;  // near faint patches; the others near bright ones
        FeatureMap map = RandomMap(14, 14, 8, 3);
        for (int l = 8; l < 32; ++l) {
          const float norm = ExtractPatch(map, l % 12, 4, patch_size, false, &layer.filters(l, 0));
          layer.filters.row(l) /= norm;
        }
        for (int y = 0; y < 14; ++y) {
          for (int x = 0; x < 14; ++x) {
            for (int c = 0; c < 8; ++c) map.At(y, x)[c] *= (x + y) % 5 < 2 || x > 8 ? faint : 1e3F;
          }
        }
        const std::vector<double> expected = EncodeSlow({layer}, map);
        ::ckn::testing::ForEachTarget([&] {
          const std::vector<float> got = Encode(MakeEncoder({layer}, {14, 14, 8}), map);
          EXPECT_LT(RelativeError(got, expected), 1e-5) << patch_size << " " << sigma << " " << faint;
        });
      }
    }
  }
}

// By the definition, in double precision, from the map below the last layer.
double ResidualSlow(const Layer& layer, const FeatureMap& below) {
  double energy = 0, described = 0;
  std::vector<float> psi(static_cast<std::size_t>(layer.patch_dim()));
  for (int y = 0; y + layer.patch_size <= below.height; ++y) {
    for (int x = 0; x + layer.patch_size <= below.width; ++x) {
      ExtractPatch(below, y, x, layer.patch_size, layer.subtract_patch_mean, psi.data());
      const Eigen::VectorXd patch = Eigen::Map<const Eigen::VectorXf>(psi.data(), layer.patch_dim()).cast<double>();
      const double norm = patch.norm();
      energy += norm * norm;
      for (int l = 0; l < layer.filter_count(); ++l) {
        const double distance = (patch / norm - layer.filters.row(l).transpose().cast<double>()).squaredNorm();
        described += norm * norm * layer.eta[l] * std::exp(-2 * distance / (layer.sigma * layer.sigma));
      }
    }
  }
  return 1 - described / energy;
}

TEST(EncoderTest, TheResidualIsThatOfTheLastLayersPatches) {
  for (const auto& [channels, centred] : {std::pair{6, false}, {6, true}, {12, false}}) {
    // A pooling filter of radius 1 at every fifth place: some rows of patches reach no output, and count all the same.
    Layer last = RandomLayer({3, channels, 50, 5}, 2);
    last.pooling_radius = 1;
    last.eta *= 0.05F;
    last.subtract_patch_mean = centred;
    const Layer first = RandomLayer({2, 1, channels, 1}, 1);
    const FeatureMap map = RandomMap(15, 12, 1, 5);
    const FeatureMap below = MakeEncoder({first}, {15, 12, 1}).EncodeMap(map);
    const double expected = ResidualSlow(last, below);
    EXPECT_GT(std::abs(expected), 0.01);
    EXPECT_LT(std::abs(expected - 1), 0.99);
    ::ckn::testing::ForEachTarget([&] {
      const Encoder encoder = MakeEncoder({first, last}, {15, 12, 1});
      ASSERT_TRUE(encoder.has_residual());
      std::vector<float> out(encoder.feature_count());
      float residual = -1;
      encoder.Encode(map, out, &residual);
      EXPECT_NEAR(residual, expected, 1e-5);
      EXPECT_EQ(out, Encode(encoder, map)) << "asking for it changes nothing";
    });
  }
}

TEST(EncoderTest, NothingAtAllHasAResidualOfOne) {
  const Encoder encoder = MakeEncoder({RandomLayer({3, 1, 4, 2}, 1)}, {8, 8, 1});
  std::vector<float> out(encoder.feature_count());
  float residual = 0;
  encoder.Encode(FeatureMap(8, 8, 1), out, &residual);
  EXPECT_EQ(residual, 1);
}

TEST(EncoderTest, ThereIsNoResidualBehindAProjection) {
  Layer layer = RandomLayer({3, 1, 4, 2}, 1);
  layer.projection = RowMatrixF::Identity(4, 4);
  EXPECT_FALSE(MakeEncoder({layer}, {8, 8, 1}).has_residual());
}

TEST(EncoderTest, AProjectionActsOnEachPlaceOfThePooledMap) {
  std::vector<Layer> layers = {RandomLayer({3, 1, 7, 2}, 1), RandomLayer({2, 7, 5, 2}, 2)};
  for (Layer& layer : layers) {
    std::mt19937 rng(static_cast<unsigned>(layer.filter_count()));
    std::normal_distribution<float> normal;
    layer.projection.resize(layer.filter_count(), layer.filter_count());
    for (Eigen::Index i = 0; i < layer.projection.size(); ++i) layer.projection.data()[i] = normal(rng);
    layer.projection = (layer.projection + layer.projection.transpose()).eval();
  }
  const FeatureMap map = RandomMap(13, 10, 1, 5);
  const std::vector<float> got = Encode(MakeEncoder(layers, {13, 10, 1}), map);
  EXPECT_LT(RelativeError(got, EncodeSlow(layers, map)), 1e-5);
  layers[0].projection.resize(0, 0);
  EXPECT_GT(RelativeError(got, EncodeSlow(layers, map)), 1e-2);
}

TEST(EncoderTest, WhitenedPatchesMatchTheTwin) {
  std::mt19937 rng(9);
  std::normal_distribution<float> normal;
  for (const bool subtract_mean : {false, true}) {
    std::vector<Layer> layers = {RandomLayer({3, 3, 17, 2, 1, subtract_mean}, 4), RandomLayer({2, 17, 5, 2}, 5)};
    layers[0].whitening.resize(27, 27);
    for (float& value : layers[0].whitening.reshaped()) value = normal(rng);
    layers[0].whitening = (layers[0].whitening + layers[0].whitening.transpose()).eval();
    const FeatureMap map = RandomMap(11, 9, 3, 3);
    const std::vector<float> got = Encode(MakeEncoder(layers, {11, 9, 3}), map);
    EXPECT_LT(RelativeError(got, EncodeSlow(layers, map)), 1e-5);
    layers[0].whitening.setIdentity();
    const std::vector<float> with_identity = Encode(MakeEncoder(layers, {11, 9, 3}), map);
    layers[0].whitening.resize(0, 0);
    const std::vector<float> without = Encode(MakeEncoder(layers, {11, 9, 3}), map);
    EXPECT_LT(RelativeError(with_identity, {without.begin(), without.end()}), 1e-6);
    EXPECT_NE(got, with_identity);
  }
}

Encoder MakeBfloat16Encoder(const std::vector<Layer>& layers, const MapShape& input) {
  absl::StatusOr<Encoder> encoder = Encoder::Create(layers, input, Precision::kBfloat16);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *std::move(encoder);
}

TEST(EncoderTest, Bfloat16IsSinglePrecisionOnRoundedFiltersAndMaps) {
  Layer layer = RandomLayer({3, 2, 17, 2}, 4);
  FeatureMap map = RandomMap(12, 11, 2, 3);
  const MapShape shape{12, 11, 2};
  ::ckn::testing::ForEachTarget([&] {
    const std::vector<float> got = Encode(MakeBfloat16Encoder({layer}, shape), map);
    LimitBfloat16Unit(Bfloat16Unit::kNone);
    const std::vector<float> without_unit = Encode(MakeBfloat16Encoder({layer}, shape), map);
    LimitBfloat16Unit(Bfloat16Unit::kAmx);
    Layer rounded = layer;
    RoundToBfloat16(layer.filters.data(), static_cast<std::size_t>(layer.filters.size()), rounded.filters.data());
    FeatureMap rounded_map = map;
    RoundToBfloat16(map.values.data(), map.values.size(), rounded_map.values.data());
    const std::vector<float> expected = Encode(MakeEncoder({rounded}, shape), rounded_map);
    EXPECT_EQ(without_unit, expected);
    EXPECT_LT(RelativeError(got, {expected.begin(), expected.end()}), 3e-6) << "another order of the sum";
    EXPECT_GT(RelativeError(Encode(MakeEncoder({layer}, shape), map), {expected.begin(), expected.end()}), 1e-4);
  });
}

// Eight bits: each factor of a product is off by at most 2^-8 of itself.
TEST(EncoderTest, Bfloat16IsNearSinglePrecisionForEveryKindOfPatch) {
  for (const char* const kind : {"plain", "centred", "whitened", "projected"}) {
    const std::string patches = kind;
    Layer first = RandomLayer({3, 3, 17, 2, 1, patches != "plain"}, 4);
    if (patches == "whitened") first.whitening = RowMatrixF::Identity(27, 27) * 1.3F;
    if (patches == "projected") first.projection = RowMatrixF::Identity(17, 17) * 0.7F;
    const std::vector<Layer> layers = {first, RandomLayer({2, 17, 30, 2}, 5)};
    const MapShape shape{20, 18, 3};
    const FeatureMap map = RandomMap(20, 18, 3, 3);
    const Encoder exact = MakeEncoder(layers, shape), rounded = MakeBfloat16Encoder(layers, shape);
    std::vector<float> expected(static_cast<std::size_t>(exact.feature_count())), got(expected.size());
    float exact_residual = 0, residual = 0;
    exact.Encode(map, expected, &exact_residual);
    rounded.Encode(map, got, &residual);
    const double error = RelativeError(got, {expected.begin(), expected.end()});
    EXPECT_GT(error, 1e-5) << kind;
    EXPECT_LT(error, 2e-2) << kind;
    EXPECT_NEAR(residual, exact_residual, 2e-2 * std::abs(1 - exact_residual)) << kind;
    EXPECT_LT(RelativeError(got, EncodeSlow(layers, map)), 2e-2) << kind;
  }
}

TEST(EncoderTest, ManyThreadsGiveTheBitsOfOne) {
  const std::vector<Layer> layers = {RandomLayer({1, 2, 12, 2}, 1), RandomLayer({3, 12, 50, 3}, 2)};
  const Encoder encoder = MakeEncoder(layers, {28, 28, 2});
  std::vector<FeatureMap> maps;
  std::vector<std::vector<float>> alone, together(32);
  for (unsigned i = 0; i < together.size(); ++i) {
    maps.push_back(RandomMap(28, 28, 2, i));
    alone.push_back(Encode(encoder, maps.back()));
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < maps.size(); i += 4) together[i] = Encode(encoder, maps[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alone, together);
}

// Runs the loops of a layer on three threads, the last item first.
class BackwardHelpers : public Helpers {
 public:
  void Share(std::size_t count, absl::FunctionRef<void(std::size_t i)> body) override {
    ++loops;
    const auto backward = [&](std::size_t i) { body(count - 1 - i); };
    SharedLoop loop(count, backward);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back([&] { loop.Run(); });
    for (std::thread& thread : threads) thread.join();
    loop.RethrowError();
  }
  int loops = 0;
};

TEST(EncoderTest, HelpersGiveTheBitsOfOneThread) {
  for (const bool subtract_mean : {false, true}) {
    const std::vector<Layer> layers = {RandomLayer({1, 2, 12, 2}, 1),
                                       RandomLayer({3, 12, 300, 3, 1, subtract_mean}, 2)};
    const Encoder encoder = MakeEncoder(layers, {48, 48, 2});
    const FeatureMap map = RandomMap(48, 48, 2, 3);
    std::vector<float> alone(static_cast<std::size_t>(encoder.feature_count())), shared(alone.size());
    float residual_alone = 0, residual_shared = 0;
    encoder.Encode(map, alone, &residual_alone);
    BackwardHelpers helpers;
    {
      const Helpers::Scope scope(&helpers);
      encoder.Encode(map, shared, &residual_shared);
    }
    EXPECT_GE(helpers.loops, 1);
    EXPECT_EQ(alone, shared);
    EXPECT_EQ(residual_alone, residual_shared);
  }
}

TEST(EncoderTest, SmallLayersAreNotShared) {
  const Encoder encoder = MakeEncoder({RandomLayer({3, 1, 8, 2}, 1)}, {12, 12, 1});
  BackwardHelpers helpers;
  const Helpers::Scope scope(&helpers);
  Encode(encoder, RandomMap(12, 12, 1, 1));
  EXPECT_EQ(helpers.loops, 0);
}

TEST(EncoderTest, ScalesWithTheInput) {  // psi(c u) = c psi(u), c > 0, above the floor of the norm
  const std::vector<Layer> layers = {RandomLayer({3, 1, 9, 2}, 4), RandomLayer({2, 9, 5, 2}, 5)};
  const Encoder encoder = MakeEncoder(layers, {12, 12, 1});
  FeatureMap map = RandomMap(12, 12, 1, 6);
  const std::vector<float> once = Encode(encoder, map);
  for (float& v : map.values) v *= 4;
  const std::vector<float> scaled = Encode(encoder, map);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(scaled[i], 4 * once[i], 1e-5 * std::abs(scaled[i]));
}

TEST(EncoderTest, ABlankImageHasZeroFeatures) {
  for (const bool subtract_mean : {false, true}) {
    const std::vector<Layer> layers = {RandomLayer({3, 3, 9, 2, 1, subtract_mean}, 4), RandomLayer({2, 9, 5, 2}, 5)};
    const Encoder encoder = MakeEncoder(layers, {12, 12, 3});
    EXPECT_THAT(Encode(encoder, FeatureMap(12, 12, 3)), ::testing::Each(0.0F));
  }
}

TEST(EncoderTest, PatchesBelowTheFloorOfTheNormMatchTheTwin) {
  Layer layer = RandomLayer({2, 1, 6, 1}, 8);
  layer.epsilon = 2;
  FeatureMap map = RandomMap(5, 5, 1, 9);
  const Encoder encoder = MakeEncoder({layer}, {5, 5, 1});
  EXPECT_LT(RelativeError(Encode(encoder, map), EncodeSlow({layer}, map)), 1e-5);
}

TEST(EncoderTest, AFilterWithEtaZeroGivesZero) {
  Layer layer = RandomLayer({2, 1, 3, 1}, 8);
  layer.eta[1] = 0;
  const Encoder encoder = MakeEncoder({layer}, {4, 4, 1});
  const FeatureMap out = encoder.EncodeMap(RandomMap(4, 4, 1, 1));
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      EXPECT_GT(out.At(y, x)[0], 0);
      EXPECT_EQ(out.At(y, x)[1], 0);
    }
  }
}

TEST(EncoderTest, PoolsOneActivationWithGaussianWeights) {
  // A one-pixel picture: its activation is known, so the output shows the pooling filter itself.
  Layer layer;
  layer.in_channels = 1;
  layer.subsampling = 3;
  layer.pooling_radius = 3;
  layer.sigma = 1;
  layer.filters = RowMatrixF::Ones(1, 1);
  layer.eta = Eigen::VectorXf::Ones(1);
  FeatureMap map(7, 7, 1);
  map.At(2, 3)[0] = 0.5F;  // psi~ = 1 = w: zeta = 0.5
  const FeatureMap out = MakeEncoder({layer}, {7, 7, 1}).EncodeMap(map);
  ASSERT_EQ(out.height, 3);  // centres 1, 4, 7
  const double constant = 0.5 * std::sqrt(2 / std::numbers::pi);
  EXPECT_NEAR(out.At(0, 0)[0], constant * std::exp(-(1.0 + 4.0) / 9), 1e-6);
  EXPECT_NEAR(out.At(1, 1)[0], constant * std::exp(-(4.0 + 1.0) / 9), 1e-6);
  EXPECT_EQ(out.At(2, 1)[0], 0);  // 5 rows away, outside the filter
}

TEST(EncoderTest, RejectsLayersThatDoNotFit) {
  const auto message = [](std::vector<Layer> layers, const MapShape& input) {
    return std::string(Encoder::Create(std::move(layers), input).status().message());
  };
  EXPECT_THAT(message({}, {4, 4, 1}), ::testing::HasSubstr("expected at least one"));
  EXPECT_THAT(message({RandomLayer({2, 1, 3, 1}, 1), RandomLayer({2, 4, 3, 1}, 1)}, {4, 4, 1}),
              ::testing::AllOf(::testing::HasSubstr("layer 2"), ::testing::HasSubstr("got 4, expected 3")));
  EXPECT_THAT(message({RandomLayer({5, 1, 3, 1}, 1)}, {4, 8, 1}),
              ::testing::AllOf(::testing::HasSubstr("layer 1"), ::testing::HasSubstr("4x8")));
}

TEST(LayerTest, ValidationNamesTheField) {
  const auto message = [](auto change) {
    Layer layer = RandomLayer({2, 1, 3, 1}, 1);
    change(layer);
    return std::string(ValidateLayer(layer).message());
  };
  EXPECT_EQ(message([](Layer&) {}), "");
  EXPECT_THAT(message([](Layer& l) { l.patch_size = 0; }), ::testing::HasSubstr("patch_size: got 0"));
  EXPECT_THAT(message([](Layer& l) { l.in_channels = 2; }),
              ::testing::HasSubstr("filters: got [3][4], expected [3][8]"));
  EXPECT_THAT(message([](Layer& l) { l.subsampling = -1; }), ::testing::HasSubstr("subsampling: got -1"));
  EXPECT_THAT(message([](Layer& l) { l.pooling_radius = -1; }), ::testing::HasSubstr("pooling_radius"));
  EXPECT_THAT(message([](Layer& l) { l.sigma = 0; }), ::testing::HasSubstr("sigma: got 0"));
  EXPECT_THAT(message([](Layer& l) { l.epsilon = std::nanf(""); }), ::testing::HasSubstr("epsilon"));
  EXPECT_THAT(message([](Layer& l) { l.filters(1, 2) = INFINITY; }), ::testing::HasSubstr("filters[1][2]: got inf"));
  EXPECT_THAT(message([](Layer& l) { l.eta[2] = -0.5F; }), ::testing::HasSubstr("eta[2]: got -0.5"));
  EXPECT_THAT(message([](Layer& l) { l.eta.resize(2); }), ::testing::HasSubstr("eta: got [2], expected [3]"));
}

}  // namespace
}  // namespace ckn
