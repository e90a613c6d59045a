// Images a second of one thread through the encoder, for the architectures of the paper: random weights, which cost as
// much as learned ones. `share` is the part of the time that products at the rate of `peak` would take.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "server/feature_extractor.h"
#include "server/training/recipe.h"

namespace ckn {
namespace {

std::vector<Layer> RandomLayers(const NetworkPlan& plan) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<Layer> layers;
  for (const LayerPlan& layer_plan : plan.layers) {
    Layer layer = layer_plan.layer;
    layer.sigma = 0.7F;
    layer.filters.resize(layer_plan.filters, layer.patch_dim());
    for (float& value : layer.filters.reshaped())
      value = normal(rng) / std::sqrt(static_cast<float>(layer.patch_dim()));
    layer.eta.setOnes(layer_plan.filters);
    layers.push_back(layer);
  }
  return layers;
}

double Flop(const NetworkPlan& plan) {
  double flop = 0;
  for (std::size_t k = 0; k < plan.layers.size(); ++k) {
    const Layer& layer = plan.layers[k].layer;
    const double places = static_cast<double>(ActivationSize(plan.shapes[k].height, layer.patch_size)) *
                          ActivationSize(plan.shapes[k].width, layer.patch_size);
    flop += 2 * places * plan.layers[k].filters * layer.patch_dim();
  }
  return flop;
}

void BenchmarkEncoder(benchmark::State& state, const std::string& name, int side, int channels) {
  const NetworkPlan plan = *ResolveRecipe(*BuiltInRecipe(name), side, side, channels);
  FeatureExtractor extractor;
  if (!extractor.Add(plan.input, RandomLayers(plan)).ok()) return state.SkipWithError("layers do not fit");
  std::mt19937 rng(2);
  ImageU8 image{side, side, channels, {}};
  for (int i = 0; i < side * side * channels; ++i) image.pixels.push_back(static_cast<std::uint8_t>(rng()));
  std::vector<float> features(static_cast<std::size_t>(extractor.feature_count()));
  for (auto _ : state) {
    if (!extractor.Extract(image, features).ok()) return state.SkipWithError("extract");
    benchmark::DoNotOptimize(features.data());
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["GFLOP"] =
      benchmark::Counter(Flop(plan) * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(BenchmarkEncoder, gm1, "ckn-gm1", 28, 1);
BENCHMARK_CAPTURE(BenchmarkEncoder, gm2, "ckn-gm2", 28, 1);
BENCHMARK_CAPTURE(BenchmarkEncoder, pm1, "ckn-pm1", 28, 1);
BENCHMARK_CAPTURE(BenchmarkEncoder, pm2, "ckn-pm2", 28, 1);
BENCHMARK_CAPTURE(BenchmarkEncoder, gm_cifar10, "ckn-gm-cifar10", 32, 3);
BENCHMARK_CAPTURE(BenchmarkEncoder, pm_cifar10, "ckn-pm-cifar10", 32, 3);

}  // namespace
}  // namespace ckn

BENCHMARK_MAIN();
