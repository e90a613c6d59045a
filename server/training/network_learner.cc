#include "server/training/network_learner.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/status.h"
#include "server/ckn/encoder.h"
#include "server/store/model_proto.h"

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

absl::StatusOr<Network> LearnNetwork(const NetworkPlan& plan, const Dataset& data, std::span<const std::size_t> rows,
                                     const LearningOptions& options, std::uint64_t seed, LayerJournal& journal,
                                     ThreadPool& pool, const Progress& progress) {
  Network network;
  network.architecture = plan.name;
  network.input = plan.input;
  LayerStack stack(plan, data, rows);
  for (std::size_t k = 0; k < plan.layers.size(); ++k) {
    const LayerPlan& layer = plan.layers[k];
    LearnedLayer learned;
    if (const v1::Layer* const finished = journal.TakeFinished()) {
      CKN_ASSIGN_OR_RETURN(learned.layer, LayerFromProto(*finished, ModelLimits{}));
      learned.learning = finished->learning();
    } else {
      if (layer.layer.learned) {
        LayerCheckpoint checkpoint;
        checkpoint.restored = journal.optimiser();
        checkpoint.save = [&journal](const std::string& optimiser) { return journal.SaveOptimiser(optimiser); };
        CKN_ASSIGN_OR_RETURN(
            learned, LearnLayer(
                         layer, rows.size(), [&stack](std::size_t i, int) { return stack.MapBelow(i); }, options, seed,
                         k + 1, checkpoint, pool, WithPrefix(progress, absl::StrCat("layer ", k + 1, ": "))));
      } else {
        learned.layer = OrientationLayer(layer.filters);
        learned.layer.subsampling = layer.layer.subsampling;
        learned.layer.pooling_radius = layer.layer.pooling_radius;
      }
      CKN_RETURN_IF_ERROR(journal.Finish(LayerToProto(learned.layer, learned.learning)));
    }
    network.learning.push_back(learned.learning);
    CKN_RETURN_IF_ERROR(stack.Push(std::move(learned.layer)));
  }
  network.layers = stack.layers();
  return network;
}

}  // namespace ckn
