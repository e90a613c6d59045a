#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckn/v1/model.pb.h"

// The file an interrupted training run continues from: the SHA-256 of the rest (32 bytes), then a serialized
// ckn.v1.TrainingCheckpoint. Written like a model file, so a crash leaves the previous one.
namespace ckn {

absl::Status WriteCheckpoint(const v1::TrainingCheckpoint& checkpoint, const std::string& path);

// nullopt when there is no such file. DATA_LOSS when it is damaged; FAILED_PRECONDITION when it belongs to another run.
absl::StatusOr<std::optional<v1::TrainingCheckpoint>> ReadCheckpoint(const std::string& path, const std::string& key);

// The work of a training run as it goes on, kept in a checkpoint: layers in the order in which they are learned.
class LayerJournal {
 public:
  // Kept in memory only.
  LayerJournal() = default;
  // `key` names all that the layers depend on; a file with another key is refused. `resume`: go on from what is in the
  // file, if it is there. Errors as ReadCheckpoint.
  static absl::StatusOr<LayerJournal> Open(const std::string& path, const std::string& key, bool resume);

  // Layers that an earlier run finished.
  [[nodiscard]] int finished_before() const { return finished_before_; }

  // The next layer, if an earlier run finished it; nullptr: it must be learned, and then Finish called.
  const v1::Layer* TakeFinished();
  absl::Status Finish(v1::Layer layer);

  // State of the optimiser of the layer in work; empty: not begun.
  [[nodiscard]] const std::string& optimiser() const { return state_.optimiser(); }
  absl::Status SaveOptimiser(const std::string& optimiser);

 private:
  [[nodiscard]] absl::Status Save() const;

  std::string path_;
  v1::TrainingCheckpoint state_;
  int finished_before_ = 0;
  int taken_ = 0;
};

}  // namespace ckn
