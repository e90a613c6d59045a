#include "server/training/network_learner.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/status.h"
#include "server/ckn/encoder.h"
#include "server/store/model_file.h"
#include "server/training/checkpoint.h"

namespace ckn {
namespace {

class LayerStack {
 public:
  LayerStack(const NetworkPlan& plan, const Dataset& data, std::span<const std::size_t> rows)
      : plan_(plan), data_(data), rows_(rows) {}

  // Map xi_k of training image i for the layers so far. The plan was checked against the data's size.
  [[nodiscard]] FeatureMap MapBelow(std::size_t i) const {
    FeatureMap map = *Preprocess(data_.Image(rows_[i]), plan_.input);
    return encoder_ ? encoder_->EncodeMap(map) : map;
  }

  absl::Status Push(Layer layer) {
    layers_.push_back(std::move(layer));
    CKN_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Create(layers_, plan_.shapes.front()));
    encoder_ = std::move(encoder);
    return absl::OkStatus();
  }

  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }

 private:
  const NetworkPlan& plan_;
  const Dataset& data_;
  std::span<const std::size_t> rows_;
  std::vector<Layer> layers_;
  std::optional<Encoder> encoder_;
};

}  // namespace

absl::StatusOr<LearnedNetwork> LearnNetwork(const NetworkPlan& plan, const Dataset& data,
                                            std::span<const std::size_t> rows, const LearningOptions& options,
                                            std::uint64_t seed, const NetworkCheckpoint& checkpoint, ThreadPool& pool,
                                            const Progress& progress) {
  v1::TrainingCheckpoint state;
  state.set_key(checkpoint.key);
  if (!checkpoint.path.empty() && checkpoint.resume) {
    CKN_ASSIGN_OR_RETURN(std::optional<v1::TrainingCheckpoint> found, ReadCheckpoint(checkpoint.path, checkpoint.key));
    if (found) {
      state = *std::move(found);
      progress.report(absl::StrFormat("resuming from %s: %d of %d layers done", checkpoint.path, state.layers_size(),
                                      plan.layers.size()));
    } else {
      progress.report(absl::StrFormat("%s: no checkpoint, starting anew", checkpoint.path));
    }
  }
  const auto save = [&] {
    return checkpoint.path.empty() ? absl::OkStatus() : WriteCheckpoint(state, checkpoint.path);
  };

  LearnedNetwork network;
  LayerStack stack(plan, data, rows);
  for (std::size_t k = 0; k < plan.layers.size(); ++k) {
    const LayerPlan& layer = plan.layers[k];
    LearnedLayer learned;
    if (static_cast<int>(k) < state.layers_size()) {
      CKN_ASSIGN_OR_RETURN(learned.layer, LayerFromProto(state.layers(static_cast<int>(k)), ModelLimits{}));
      learned.learning = state.layers(static_cast<int>(k)).learning();
    } else if (!layer.layer.learned) {
      learned.layer = OrientationLayer(layer.filters);
      learned.layer.subsampling = layer.layer.subsampling;
      learned.layer.pooling_radius = layer.layer.pooling_radius;
    } else {
      LayerCheckpoint layer_checkpoint;
      layer_checkpoint.restored = state.optimiser();
      layer_checkpoint.save = [&](const std::string& optimiser) {
        state.set_optimiser(optimiser);
        return save();
      };
      CKN_ASSIGN_OR_RETURN(learned,
                           LearnLayer(
                               layer.layer, layer.filters, layer.sigma, layer.sigma_quantile, rows.size(),
                               [&stack](std::size_t i, int) { return stack.MapBelow(i); }, options, seed, k + 1,
                               layer_checkpoint, pool, WithPrefix(progress, absl::StrCat("layer ", k + 1, ": "))));
      state.clear_optimiser();
    }
    if (static_cast<int>(k) >= state.layers_size()) {
      *state.add_layers() = LayerToProto(learned.layer, learned.learning);
      if (learned.layer.learned) CKN_RETURN_IF_ERROR(save());
    }
    network.learning.push_back(learned.learning);
    CKN_RETURN_IF_ERROR(stack.Push(std::move(learned.layer)));
  }
  network.layers = stack.layers();
  return network;
}

}  // namespace ckn
