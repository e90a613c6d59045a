#include "server/training/checkpoint.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "server/base/atomic_file.h"
#include "server/base/sha256.h"

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

}  // namespace ckn
