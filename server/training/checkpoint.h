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

}  // namespace ckn
