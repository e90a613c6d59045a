#include "server/feature_extractor.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "server/base/status.h"

namespace ckn {
namespace {

// What a thread keeps from image to image.
struct Workspace {
  FeatureMap map;
  ImageU8 mirrored;
  std::vector<float> features;
  std::vector<float> residuals;
};

Workspace& ThreadWorkspace() {
  thread_local Workspace workspace;
  return workspace;
}

}  // namespace

absl::Status FeatureExtractor::Add(const InputSpec& input, std::vector<Layer> layers) {
  const MapShape shape{input.height, input.width, input.MapChannels()};
  CKN_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Create(std::move(layers), shape, precision_));
  feature_count_ += encoder.feature_count();
  networks_.push_back({input, std::move(encoder)});
  return absl::OkStatus();
}

std::vector<int> FeatureExtractor::feature_counts() const {
  std::vector<int> counts;
  for (const Network& network : networks_) counts.push_back(network.encoder.feature_count());
  return counts;
}

double FeatureExtractor::operations() const {
  double sum = 0;
  for (const Network& network : networks_) sum += network.encoder.operations() * (network.input.mirror ? 2 : 1);
  return sum;
}

bool FeatureExtractor::has_residual() const {
  return std::ranges::all_of(networks_, [](const Network& network) { return network.encoder.has_residual(); });
}

float FeatureExtractor::MeanResidual(std::span<const float> residuals) {
  float sum = 0;
  for (const float residual : residuals) sum += residual;
  return sum / static_cast<float>(residuals.size());
}

absl::Status FeatureExtractor::Extract(const ImageU8& image, std::span<float> out, float* residual) const {
  if (residual == nullptr) return Extract(image, out, std::span<float>());
  std::vector<float>& residuals = ThreadWorkspace().residuals;
  residuals.resize(networks_.size());
  CKN_RETURN_IF_ERROR(Extract(image, out, residuals));
  *residual = MeanResidual(residuals);
  return absl::OkStatus();
}

absl::Status FeatureExtractor::Extract(const ImageU8& image, std::span<float> out, std::span<float> residuals) const {
  assert(static_cast<int>(out.size()) == feature_count_);
  assert(residuals.empty() || residuals.size() == networks_.size());
  Workspace& work = ThreadWorkspace();
  bool mirrored = false;  // made when a network asks for it
  for (std::size_t k = 0; k < networks_.size(); ++k) {
    const Network& network = networks_[k];
    CKN_RETURN_IF_ERROR(Preprocess(image, network.input, work.map));
    const auto count = static_cast<std::size_t>(network.encoder.feature_count());
    float of_image = 0;
    network.encoder.Encode(work.map, out.first(count), residuals.empty() ? nullptr : &of_image);
    if (network.input.mirror) {
      if (!mirrored) CKN_RETURN_IF_ERROR(MirrorLeftRight(image, work.mirrored));
      mirrored = true;
      CKN_RETURN_IF_ERROR(Preprocess(work.mirrored, network.input, work.map));
      work.features.resize(count);
      float of_mirrored = 0;
      network.encoder.Encode(work.map, work.features, residuals.empty() ? nullptr : &of_mirrored);
      of_image = 0.5F * (of_image + of_mirrored);
      for (std::size_t i = 0; i < count; ++i) out[i] = 0.5F * (out[i] + work.features[i]);
    }
    if (!residuals.empty()) residuals[k] = of_image;
    out = out.subspan(count);
  }
  return absl::OkStatus();
}

}  // namespace ckn
