#include "server/training/checkpoint.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/atomic_file.h"
#include "server/base/sha256.h"
#include "server/base/status.h"

namespace ckn {

absl::Status WriteCheckpoint(const v1::TrainingCheckpoint& checkpoint, const std::string& path) {
  const std::string body = checkpoint.SerializeAsString();
  return WriteFileAtomically(path, Sha256Digest(body) + body);
}

absl::StatusOr<std::optional<v1::TrainingCheckpoint>> ReadCheckpoint(const std::string& path, const std::string& key) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (content.size() < Sha256::kDigestBytes ||
      Sha256Digest(std::string_view(content).substr(Sha256::kDigestBytes)) != content.substr(0, Sha256::kDigestBytes)) {
    return absl::DataLossError(absl::StrCat(path, ": damaged checkpoint (", content.size(),
                                            " bytes, wrong checksum); delete it to start anew"));
  }
  v1::TrainingCheckpoint checkpoint;
  if (!checkpoint.ParseFromArray(content.data() + Sha256::kDigestBytes,
                                 static_cast<int>(content.size() - Sha256::kDigestBytes))) {
    return absl::DataLossError(absl::StrCat(path, ": not a checkpoint; delete it to start anew"));
  }
  if (checkpoint.key() != key) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": belongs to another run\n  got      ", checkpoint.key(),
                                                      "\n  expected ", key, "\ndelete it to start anew"));
  }
  return checkpoint;
}

absl::StatusOr<LayerJournal> LayerJournal::Open(const std::string& path, const std::string& key, bool resume) {
  LayerJournal journal;
  journal.path_ = path;
  if (resume) {
    CKN_ASSIGN_OR_RETURN(std::optional<v1::TrainingCheckpoint> found, ReadCheckpoint(path, key));
    if (found) journal.state_ = *std::move(found);
  }
  journal.state_.set_key(key);
  journal.finished_before_ = journal.state_.layers_size();
  return journal;
}

const v1::Layer* LayerJournal::TakeFinished() { return taken_ < finished_before_ ? &state_.layers(taken_++) : nullptr; }

absl::Status LayerJournal::Finish(v1::Layer layer) {
  *state_.add_layers() = std::move(layer);
  state_.clear_optimiser();
  return Save();
}

absl::Status LayerJournal::SaveOptimiser(const std::string& optimiser) {
  state_.set_optimiser(optimiser);
  return Save();
}

absl::Status LayerJournal::Save() const { return path_.empty() ? absl::OkStatus() : WriteCheckpoint(state_, path_); }

}  // namespace ckn
