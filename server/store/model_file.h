#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/model.h"
#include "server/store/model_proto.h"

// The model file: see FORMAT.md beside this file for the byte layout.
namespace ckn {

struct LoadedModel {
  Model model;
  std::string sha256;  // of the whole file, lower-case hex
  std::uint64_t file_bytes = 0;
};

// Container <-> bytes. ParseModelFile fails with DATA_LOSS (not a model file, truncated, checksum), UNIMPLEMENTED
// (written by a newer version) or INVALID_ARGUMENT (contents).
// The same model gives the same bytes. The model must be below 2 GiB; WriteModelFile checks that.
std::string SerializeModelFile(const Model& model);
absl::StatusOr<Model> ParseModelFile(std::span<const std::byte> file, const ModelLimits& limits);

// Whether the file begins with the signature of model files.
bool LooksLikeModelFile(const std::string& path);

// Fails with INVALID_ARGUMENT when the model would not load again, so that no unusable file is written.
// Writes to a temporary file beside `path`, flushes it to disk and renames it: at every moment `path` is the old file
// or the whole new one.
absl::Status WriteModelFile(const Model& model, const std::string& path);
// NOT_FOUND, RESOURCE_EXHAUSTED when there is no memory for it, and the codes of ParseModelFile; messages start with
// the path.
absl::StatusOr<LoadedModel> ReadModelFile(const std::string& path, const ModelLimits& limits = {});

}  // namespace ckn
