#include "server/feature_extractor.h"

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

absl::Status FeatureExtractor::Extract(const ImageU8& image, std::span<float> out) const {
  assert(static_cast<int>(out.size()) == feature_count_);
  ImageU8 mirrored;  // made when a network asks for it
  std::vector<float> other;
  for (const Network& network : networks_) {
    CKN_ASSIGN_OR_RETURN(const FeatureMap map, Preprocess(image, network.input));
    const auto count = static_cast<std::size_t>(network.encoder.feature_count());
    network.encoder.Encode(map, out.first(count));
    if (network.input.mirror) {
      if (mirrored.pixels.empty()) {
        CKN_ASSIGN_OR_RETURN(mirrored, MirrorLeftRight(image));
      }
      CKN_ASSIGN_OR_RETURN(const FeatureMap mirrored_map, Preprocess(mirrored, network.input));
      other.resize(count);
      network.encoder.Encode(mirrored_map, other);
      for (std::size_t i = 0; i < count; ++i) out[i] = 0.5F * (out[i] + other[i]);
    }
    out = out.subspan(count);
  }
  return absl::OkStatus();
}

}  // namespace ckn
