#include "tests/testing/model_kinds.h"

#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ckn::testing {
namespace {

struct LayerKind {
  int patch_size = 1, filters = 1, subsampling = 1, pooling_radius = 1;
  float sigma = 0.7F, epsilon = 1e-5F;
  bool learned = true, centred = false, whitened = false, projected = false;
  bool dead_filter = false;  // the first filter's eta is 0
  bool positive = false;     // filters near the patches of a map without negative values
};

struct NetworkKind {
  InputSpec input;
  std::vector<LayerKind> layers;
};

class Maker {
 public:
  Model Make(const std::string& name, const std::vector<NetworkKind>& networks, float probability_scale = 0) {
    Model model;
    model.name = name;
    Eigen::Index features = 0;
    for (const NetworkKind& kind : networks) {
      model.networks.push_back(MakeNetwork(kind));
      features += model.networks.back().standardization.mean.size();
    }
    constexpr int kClasses = 5;
    model.svm.weights = Random(kClasses, features);
    model.svm.bias = Random(kClasses, 1);
    model.svm.probability_scale = probability_scale;
    for (int i = 0; i < kClasses; ++i) model.class_names.push_back(absl::StrCat("class ", i));
    return model;
  }

 private:
  // In [-1, 1).
  float Uniform() { return static_cast<float>(rng_() >> 8) * 0x1p-23F - 1; }

  RowMatrixF Random(Eigen::Index rows, Eigen::Index cols) {
    RowMatrixF matrix(rows, cols);
    for (float& value : matrix.reshaped<Eigen::RowMajor>()) value = Uniform();
    return matrix;
  }

  // Symmetric, near the identity, as whitenings and projections are.
  RowMatrixF RandomSymmetric(Eigen::Index size) {
    const RowMatrixF random = Random(size, size);
    return RowMatrixF::Identity(size, size) + 0.2F * (random + random.transpose());
  }

  Layer MakeLayer(const LayerKind& kind, int in_channels) {
    Layer layer;
    layer.patch_size = kind.patch_size;
    layer.in_channels = in_channels;
    layer.subsampling = kind.subsampling;
    layer.pooling_radius = kind.pooling_radius;
    layer.subtract_patch_mean = kind.centred;
    layer.learned = kind.learned;
    layer.sigma = kind.sigma;
    layer.epsilon = kind.epsilon;
    layer.filters = Random(kind.filters, layer.patch_dim());
    if (kind.positive) layer.filters = layer.filters.array() * 0.5F + 1;
    layer.eta.resize(kind.filters);
    for (Eigen::Index l = 0; l < layer.filters.rows(); ++l) {
      layer.filters.row(l) *= (1 + 0.3F * Uniform()) / layer.filters.row(l).norm();
      layer.eta[l] = l == 0 && kind.dead_filter ? 0 : 1 + 0.9F * Uniform();
    }
    if (kind.whitened) layer.whitening = RandomSymmetric(layer.patch_dim());
    if (kind.projected) layer.projection = RandomSymmetric(kind.filters);
    return layer;
  }

  Network MakeNetwork(const NetworkKind& kind) {
    Network network;
    network.architecture = "test";
    network.input = kind.input;
    MapShape shape{kind.input.height, kind.input.width, kind.input.MapChannels()};
    for (const LayerKind& layer_kind : kind.layers) {
      network.layers.push_back(MakeLayer(layer_kind, shape.channels));
      network.learning.emplace_back();
      shape = OutputShape(network.layers.back(), shape).value();
    }
    network.standardization.mean = Random(Eigen::Index{shape.height} * shape.width * shape.channels, 1);
    network.standardization.scale = 2.5F + Uniform();
    return network;
  }

  std::mt19937 rng_{1};
};

}  // namespace

std::vector<Model> ModelsOfAllKinds() {
  const InputSpec gray{.height = 14, .width = 11, .channels = 1};
  const InputSpec colour{.height = 12, .width = 15, .channels = 3};
  InputSpec gradient = gray;
  gradient.map = InputMap::kGradient;
  InputSpec colour_gradient = colour;
  colour_gradient.map = InputMap::kGradient;
  InputSpec mirrored = colour;
  mirrored.mirror = true;
  InputSpec mirrored_gradient = colour_gradient;
  mirrored_gradient.mirror = true;
  InputSpec gray_of_colour = colour;
  gray_of_colour.channels = 1;

  const LayerKind orientations{
      .patch_size = 1, .filters = 12, .subsampling = 2, .pooling_radius = 2, .sigma = 0.52F, .learned = false};
  const LayerKind few{.patch_size = 3, .filters = 20, .subsampling = 2, .pooling_radius = 2};
  const LayerKind many{.patch_size = 2, .filters = 90, .subsampling = 2, .pooling_radius = 4};
  const auto with = [](LayerKind kind, auto change) {
    change(kind);
    return kind;
  };
  const LayerKind few_centred = with(few, [](LayerKind& kind) { kind.centred = true; });
  const LayerKind many_centred = with(many, [](LayerKind& kind) { kind.centred = true; });
  const LayerKind few_whitened = with(few_centred, [](LayerKind& kind) { kind.whitened = true; });
  const LayerKind many_whitened = with(many_centred, [](LayerKind& kind) { kind.whitened = true; });
  const auto projected = [](LayerKind& kind) { kind.projected = true; };
  const auto floored = [](LayerKind& kind) { kind.epsilon = 1.5F; };
  const auto dead = [](LayerKind& kind) { kind.dead_filter = true; };
  const auto sharp = [](LayerKind& kind) {
    kind.sigma = 0.25F;
    kind.positive = true;
  };

  Maker maker;
  return {
      maker.Make("gray", {{gray, {few}}}),
      maker.Make("gray-many-filters", {{gray, {many}}}),
      maker.Make("colour-centred", {{colour, {few_centred, many}}}),
      maker.Make("colour-centred-many-filters", {{colour, {many_centred, few}}}, 1.5F),
      maker.Make("gradient", {{gradient, {orientations, few}}}, 2),
      maker.Make("gradient-of-colour", {{colour_gradient, {orientations, many}}}),
      maker.Make("three-layers",
                 {{colour, {few, many, {.patch_size = 2, .filters = 70, .subsampling = 2, .pooling_radius = 2}}}}),
      maker.Make("whitened", {{colour, {few_whitened}}}),
      maker.Make("whitened-many-filters", {{colour, {many_whitened}}}),
      maker.Make("projected", {{gray, {with(few, projected), with(many, projected)}}}),
      maker.Make("norms-below-the-floor", {{gray, {with(few, floored)}}}),
      maker.Make("norms-below-the-floor-many-filters", {{gray, {with(many, floored)}}}),
      maker.Make("dead-filters", {{gray, {with(few, dead), with(many, dead)}}}),
      maker.Make("small-sigma", {{gray, {with(few, sharp), with(many, sharp)}}}),
      maker.Make("pooling-skips", {{gray, {{.patch_size = 1, .filters = 5, .subsampling = 3, .pooling_radius = 0}}}}),
      maker.Make("pooling-reaches-over-the-border",
                 {{gray, {{.patch_size = 4, .filters = 66, .subsampling = 4, .pooling_radius = 20}}}}),
      maker.Make("one-pixel-high",
                 {{InputSpec{.height = 1, .width = 9, .channels = 1, .map = InputMap::kGradient}, {orientations}}}),
      maker.Make("mirror", {{mirrored, {many_centred, few}}}),
      maker.Make("several-networks",
                 {{gray_of_colour, {few}}, {mirrored_gradient, {orientations, few}}, {colour, {many_centred}}}, 0.5F),
  };
}

}  // namespace ckn::testing
