#include "server/feature_extractor.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "server/base/status.h"

namespace ckn {

absl::Status FeatureExtractor::Add(const InputSpec& input, std::vector<Layer> layers) {
  const MapShape shape{input.height, input.width, input.MapChannels()};
  CKN_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Create(std::move(layers), shape));
  feature_count_ += encoder.feature_count();
  networks_.push_back({input, std::move(encoder)});
  return absl::OkStatus();
}

std::vector<int> FeatureExtractor::feature_counts() const {
  std::vector<int> counts;
  for (const Network& network : networks_) counts.push_back(network.encoder.feature_count());
  return counts;
}

bool FeatureExtractor::has_residual() const {
  return std::ranges::all_of(networks_, [](const Network& network) { return network.encoder.has_residual(); });
}

absl::Status FeatureExtractor::Extract(const ImageU8& image, std::span<float> out, float* residual) const {
  assert(static_cast<int>(out.size()) == feature_count_);
  ImageU8 mirrored;  // made when a network asks for it
  std::vector<float> other;
  float residuals = 0;
  for (const Network& network : networks_) {
    CKN_ASSIGN_OR_RETURN(const FeatureMap map, Preprocess(image, network.input));
    const auto count = static_cast<std::size_t>(network.encoder.feature_count());
    float of_image = 0;
    network.encoder.Encode(map, out.first(count), residual == nullptr ? nullptr : &of_image);
    if (network.input.mirror) {
      if (mirrored.pixels.empty()) {
        CKN_ASSIGN_OR_RETURN(mirrored, MirrorLeftRight(image));
      }
      CKN_ASSIGN_OR_RETURN(const FeatureMap mirrored_map, Preprocess(mirrored, network.input));
      other.resize(count);
      float of_mirrored = 0;
      network.encoder.Encode(mirrored_map, other, residual == nullptr ? nullptr : &of_mirrored);
      of_image = 0.5F * (of_image + of_mirrored);
      for (std::size_t i = 0; i < count; ++i) out[i] = 0.5F * (out[i] + other[i]);
    }
    residuals += of_image;
    out = out.subspan(count);
  }
  if (residual != nullptr) *residual = residuals / static_cast<float>(networks_.size());
  return absl::OkStatus();
}

}  // namespace ckn
