#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/model.h"

// The model file: see FORMAT.md beside this file for the byte layout.
namespace ckn {

struct ModelLimits {
  std::uint64_t max_file_bytes = (std::uint64_t{1} << 31) - 1;  // Protobuf takes no longer message
  int max_layers = 64;
  int max_image_side = 1 << 14;  // also of subsampling and pooling_radius
  int max_filters = 1 << 16;
  int max_patch_dim = 1 << 20;                          // patch_size^2 * channels
  std::int64_t max_map_values = std::int64_t{1} << 28;  // of the input and of each activation map, a GiB of float32
  int max_features = 1 << 22;
  int max_classes = 1 << 16;
  int max_name_bytes = 256;      // the model's and each class's
  int max_text_bytes = 1 << 16;  // every other string
};

struct LoadedModel {
  Model model;
  std::string sha256;  // of the whole file, lower-case hex
  std::uint64_t file_bytes = 0;
};

// Protobuf <-> memory. FromProto checks sizes against the limits before it allocates, then every shape against its
// neighbours and every number against kMaxParameter (server/ckn/layer.h), so that no image gets NaN or infinity.
// INVALID_ARGUMENT names the field, what was got and what was expected.
v1::Model ToProto(const Model& model);
absl::StatusOr<Model> FromProto(const v1::Model& proto, const ModelLimits& limits);

// Whether a model may have this name and these classes: at least two, printable UTF-8 of at most max_name_bytes, no
// class twice. Part of FromProto; for finding it out before training.
absl::Status ValidateNames(const std::string& model, const std::vector<std::string>& classes,
                           const ModelLimits& limits = {});

// The same for one layer; a training checkpoint keeps layers before there is a model.
v1::Layer LayerToProto(const Layer& layer, const v1::LayerLearning& learning);
absl::StatusOr<Layer> LayerFromProto(const v1::Layer& proto, const ModelLimits& limits);

// Container <-> bytes. ParseModelFile fails with DATA_LOSS (not a model file, truncated, checksum), UNIMPLEMENTED
// (written by a newer version) or INVALID_ARGUMENT (contents).
// The same model gives the same bytes. The model must be below 2 GiB; WriteModelFile checks that.
std::string SerializeModelFile(const Model& model);
absl::StatusOr<Model> ParseModelFile(std::span<const std::byte> file, const ModelLimits& limits);

// Fails with INVALID_ARGUMENT when the model would not load again, so that no unusable file is written.
// Writes to a temporary file beside `path`, flushes it to disk and renames it: at every moment `path` is the old file
// or the whole new one.
absl::Status WriteModelFile(const Model& model, const std::string& path);
// NOT_FOUND and the codes of ParseModelFile; messages start with the path.
absl::StatusOr<LoadedModel> ReadModelFile(const std::string& path, const ModelLimits& limits = {});

}  // namespace ckn
