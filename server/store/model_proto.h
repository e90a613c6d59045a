#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckn/v1/model.pb.h"
#include "server/store/model.h"

// The payload of a model file.
namespace ckn {

struct ModelLimits {
  std::uint64_t max_file_bytes = (std::uint64_t{1} << 31) - 1;  // Protobuf takes no longer message
  int max_networks = 16;
  int max_layers = 64;           // of each network
  int max_image_side = 1 << 14;  // also of subsampling and pooling_radius
  int max_filters = 1 << 16;
  int max_patch_dim = 1 << 20;                          // patch_size^2 * channels
  std::int64_t max_map_values = std::int64_t{1} << 28;  // of the input and of each activation map, a GiB of float32
  int max_features = 1 << 22;
  int max_classes = 1 << 16;
  int max_quantiles = 1001;
  int max_name_bytes = 256;      // the model's and each class's
  int max_text_bytes = 1 << 16;  // every other string
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

// Whether a text may be part of a model's provenance: printable UTF-8 of at most max_text_bytes.
absl::Status ValidateText(std::string_view field, const std::string& text, const ModelLimits& limits = {});

// Whether networks with these inputs can be combined: they take images of one size.
absl::Status CheckSameImages(const InputSpec& first, const InputSpec& other);

// ToProto and FromProto for one layer; a training checkpoint keeps layers before there is a model.
v1::Layer LayerToProto(const Layer& layer, const v1::LayerLearning& learning);
absl::StatusOr<Layer> LayerFromProto(const v1::Layer& proto, const ModelLimits& limits);

}  // namespace ckn
