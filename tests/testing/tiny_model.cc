#include "tests/testing/tiny_model.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ckn::testing {
namespace {

// splitmix64: the standard distributions differ between libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // In [0, 1).
  float Uniform() { return static_cast<float>(Next() >> 40) * 0x1p-24F; }

 private:
  std::uint64_t state_;
};

}  // namespace

Model TinyModel(const TinyModelOptions& options) {
  Random random(options.seed);
  Model model;
  model.name = options.name;
  Network network;
  network.architecture = "tiny";
  network.input = {.height = options.height,
                   .width = options.width,
                   .channels = options.channels,
                   .resize = ResizePolicy::kReject,
                   .map = InputMap::kPixels};

  Layer layer;
  layer.patch_size = 3;
  layer.in_channels = options.channels;
  layer.subsampling = 2;
  layer.pooling_radius = 2;
  layer.sigma = 0.7F;
  layer.filters.resize(options.filters, layer.patch_dim());
  layer.eta.resize(options.filters);
  for (Eigen::Index row = 0; row < layer.filters.rows(); ++row) {
    for (Eigen::Index col = 0; col < layer.filters.cols(); ++col) layer.filters(row, col) = random.Uniform();
    layer.filters.row(row).normalize();
    layer.eta[row] = 0.5F + random.Uniform();
  }
  const int height = PooledSize(ActivationSize(options.height, layer.patch_size), layer.subsampling);
  const int width = PooledSize(ActivationSize(options.width, layer.patch_size), layer.subsampling);
  const Eigen::Index features = Eigen::Index{height} * width * options.filters;
  network.layers.push_back(std::move(layer));
  v1::LayerLearning learning;
  learning.set_stop_reason("not learned");
  network.learning.push_back(learning);

  network.standardization.mean.resize(features);
  for (float& mean : network.standardization.mean) mean = random.Uniform();
  network.standardization.scale = 2;
  model.networks.push_back(std::move(network));
  model.svm.weights.resize(options.classes, features);
  for (float& weight : model.svm.weights.reshaped()) weight = random.Uniform() - 0.5F;
  model.svm.bias.resize(options.classes);
  for (float& bias : model.svm.bias) bias = random.Uniform() - 0.5F;
  for (int i = 0; i < options.classes; ++i) model.class_names.push_back(absl::StrCat("class ", i));

  model.provenance.set_program_version("test");
  model.provenance.set_dataset("none");
  model.provenance.set_validation("held-out");
  model.provenance.set_validation_error_percent(12.5);
  model.provenance.set_svm_c(1);
  return model;
}

ImageU8 TinyImage(const Model& model, std::uint64_t seed) {
  Random random(seed);
  const InputSpec& input = model.networks.front().input;
  ImageU8 image{.height = input.height, .width = input.width, .channels = input.channels, .pixels = {}};
  image.pixels.resize(static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                      static_cast<std::size_t>(image.channels));
  for (std::uint8_t& pixel : image.pixels) pixel = static_cast<std::uint8_t>(random.Next() >> 56);
  return image;
}

std::string EncodePnm(const ImageU8& image) {
  std::string file = absl::StrCat(image.channels == 1 ? "P5\n" : "P6\n", image.width, " ", image.height, "\n255\n");
  file.append(image.pixels.begin(), image.pixels.end());
  return file;
}

}  // namespace ckn::testing
