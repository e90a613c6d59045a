#include "server/store/model_proto.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/endian.h"
#include "server/base/status.h"
#include "server/base/utf8.h"

namespace ckn {
namespace {

template <typename... Args>
absl::Status Bad(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrFormat(format, args...));
}

absl::Status CheckRange(std::string_view field, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Bad("%s: got %d, expected %d to %d", field, value, min, max);
}

absl::Status CheckName(std::string_view field, const std::string& name, const ModelLimits& limits) {
  if (name.empty()) return Bad("%s: got an empty string, expected a name", field);
  if (std::cmp_greater(name.size(), limits.max_name_bytes)) {
    return Bad("%s: got %d bytes, expected at most %d", field, name.size(), limits.max_name_bytes);
  }
  if (!IsPrintableUtf8(name)) {
    return Bad("%s: got \"%s\", expected printable UTF-8", field, absl::CHexEscape(name));
  }
  return absl::OkStatus();
}

absl::Status CheckText(std::string_view field, const std::string& text, const ModelLimits& limits) {
  if (std::cmp_greater(text.size(), limits.max_text_bytes)) {
    return Bad("%s: got %d bytes, expected at most %d", field, text.size(), limits.max_text_bytes);
  }
  if (!IsPrintableUtf8(text)) return Bad("%s: expected printable UTF-8", field);
  return absl::OkStatus();
}

absl::Status CheckFinite(std::string_view field, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return Bad("%s: got %g, expected a finite number", field, value);
}

absl::Status CheckPercent(std::string_view field, double value) {
  if (value >= 0 && value <= 100) return absl::OkStatus();
  return Bad("%s: got %g, expected 0 to 100", field, value);
}

absl::Status CheckParameters(std::string_view field, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(std::abs(values[i]) <= kMaxParameter)) {
      return Bad("%s[%d]: got %g, expected a number of at most %g in magnitude", field, i, values[i], kMaxParameter);
    }
  }
  return absl::OkStatus();
}

// The byte string must hold exactly rows * cols floats. Called before memory for them is asked for.
absl::Status CheckFloatBytes(std::string_view field, const std::string& bytes, std::int64_t rows, std::int64_t cols) {
  const std::int64_t expected = rows * cols * 4;
  if (std::cmp_equal(bytes.size(), expected)) return absl::OkStatus();
  return Bad("%s: got %d bytes, expected %d (%d x %d float32)", field, bytes.size(), expected, rows, cols);
}

template <typename Matrix>
std::span<float> Values(Matrix& matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

template <typename Matrix>
void SetBytes(const Matrix& matrix, std::string* out) {
  out->clear();
  AppendFloats({matrix.data(), static_cast<std::size_t>(matrix.size())}, *out);
}

// An optional matrix [size][size].
absl::Status ReadSquare(std::string_view field, const std::string& bytes, std::int64_t size, RowMatrixF& out) {
  if (bytes.empty()) return absl::OkStatus();
  CKN_RETURN_IF_ERROR(CheckFloatBytes(field, bytes, size, size));
  out.resize(size, size);
  ReadFloats(bytes, Values(out));
  return absl::OkStatus();
}

absl::Status ReadResidualQuantiles(const std::string& bytes, const ModelLimits& limits, std::vector<float>& out) {
  const auto count = static_cast<std::int64_t>(bytes.size() / 4);
  CKN_RETURN_IF_ERROR(CheckRange("residual_quantiles", count, 0, limits.max_quantiles));
  CKN_RETURN_IF_ERROR(CheckFloatBytes("residual_quantiles", bytes, count, 1));
  out.resize(static_cast<std::size_t>(count));
  ReadFloats(bytes, out);
  CKN_RETURN_IF_ERROR(CheckParameters("residual_quantiles", out));
  if (std::is_sorted(out.begin(), out.end())) return absl::OkStatus();
  return Bad("residual_quantiles: expected them to ascend");
}

absl::StatusOr<InputSpec> InputFromProto(const v1::InputSpec& proto, const ModelLimits& limits) {
  CKN_RETURN_IF_ERROR(CheckRange("height", proto.height(), 1, limits.max_image_side));
  CKN_RETURN_IF_ERROR(CheckRange("width", proto.width(), 1, limits.max_image_side));
  if (proto.channels() != 1 && proto.channels() != 3) {
    return Bad("channels: got %d, expected 1 or 3", proto.channels());
  }
  InputSpec input{.height = proto.height(), .width = proto.width(), .channels = proto.channels()};
  input.mirror = proto.mirror();
  switch (proto.resize()) {
    case v1::RESIZE_POLICY_REJECT:
      input.resize = ResizePolicy::kReject;
      break;
    case v1::RESIZE_POLICY_STRETCH:
      input.resize = ResizePolicy::kStretch;
      break;
    default:
      return Bad("resize: got %d, expected a policy that this program knows", static_cast<int>(proto.resize()));
  }
  switch (proto.map()) {
    case v1::INPUT_MAP_PIXELS:
      input.map = InputMap::kPixels;
      break;
    case v1::INPUT_MAP_GRADIENT:
      input.map = InputMap::kGradient;
      break;
    default:
      return Bad("map: got %d, expected a map that this program knows", static_cast<int>(proto.map()));
  }
  return input;
}

absl::Status CheckLearning(const v1::LayerLearning& learning, const ModelLimits& limits) {
  CKN_RETURN_IF_ERROR(CheckRange("learning.pairs", learning.pairs(), 0, std::numeric_limits<std::int64_t>::max()));
  CKN_RETURN_IF_ERROR(
      CheckRange("learning.iterations", learning.iterations(), 0, std::numeric_limits<std::int32_t>::max()));
  CKN_RETURN_IF_ERROR(CheckRange("learning.principal_components", learning.principal_components(), 0,
                                 std::numeric_limits<std::int32_t>::max()));
  CKN_RETURN_IF_ERROR(CheckFinite("learning.objective_start", learning.objective_start()));
  CKN_RETURN_IF_ERROR(CheckFinite("learning.objective", learning.objective()));
  CKN_RETURN_IF_ERROR(CheckFinite("learning.held_out_objective", learning.held_out_objective()));
  CKN_RETURN_IF_ERROR(CheckText("learning.stop_reason", learning.stop_reason(), limits));
  return CheckText("learning.initialisation", learning.initialisation(), limits);
}

absl::Status CheckProvenance(const v1::Provenance& provenance, const ModelLimits& limits) {
  CKN_RETURN_IF_ERROR(CheckText("program_version", provenance.program_version(), limits));
  CKN_RETURN_IF_ERROR(CheckText("decoders", provenance.decoders(), limits));
  CKN_RETURN_IF_ERROR(CheckText("architecture", provenance.architecture(), limits));
  CKN_RETURN_IF_ERROR(CheckText("command", provenance.command(), limits));
  CKN_RETURN_IF_ERROR(CheckText("dataset", provenance.dataset(), limits));
  CKN_RETURN_IF_ERROR(CheckText("validation", provenance.validation(), limits));
  const std::string& hash = provenance.dataset_sha256();
  const bool hex = hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hash.empty() && (hash.size() != 64 || !hex)) {
    return Bad("dataset_sha256: got \"%s\", expected 64 lower-case hex digits or nothing", absl::CHexEscape(hash));
  }
  constexpr std::int64_t kMaxCount = std::numeric_limits<std::int64_t>::max();
  CKN_RETURN_IF_ERROR(CheckRange("train_count", provenance.train_count(), 0, kMaxCount));
  CKN_RETURN_IF_ERROR(CheckRange("test_count", provenance.test_count(), 0, kMaxCount));
  CKN_RETURN_IF_ERROR(CheckFinite("svm_c", provenance.svm_c()));
  CKN_RETURN_IF_ERROR(CheckPercent("validation_error_percent", provenance.validation_error_percent()));
  CKN_RETURN_IF_ERROR(CheckPercent("test_error_percent", provenance.test_error_percent()));
  for (const v1::ValidationPoint& point : provenance.validation_curve()) {
    CKN_RETURN_IF_ERROR(CheckFinite("validation_curve.svm_c", point.svm_c()));
    CKN_RETURN_IF_ERROR(CheckPercent("validation_curve.error_percent", point.error_percent()));
  }
  return absl::OkStatus();
}

v1::Network NetworkToProto(const Network& network) {
  v1::Network proto;
  proto.set_architecture(network.architecture);
  v1::InputSpec& input = *proto.mutable_input();
  input.set_height(network.input.height);
  input.set_width(network.input.width);
  input.set_channels(network.input.channels);
  input.set_resize(network.input.resize == ResizePolicy::kStretch ? v1::RESIZE_POLICY_STRETCH
                                                                  : v1::RESIZE_POLICY_REJECT);
  input.set_map(network.input.map == InputMap::kGradient ? v1::INPUT_MAP_GRADIENT : v1::INPUT_MAP_PIXELS);
  input.set_mirror(network.input.mirror);
  for (std::size_t k = 0; k < network.layers.size(); ++k) {
    *proto.add_layers() =
        LayerToProto(network.layers[k], k < network.learning.size() ? network.learning[k] : v1::LayerLearning());
  }
  SetBytes(network.standardization.mean, proto.mutable_standardization()->mutable_mean());
  proto.mutable_standardization()->set_scale(network.standardization.scale);
  return proto;
}

std::int64_t ValueCount(const MapShape& shape) { return std::int64_t{shape.height} * shape.width * shape.channels; }

// The parts of a v1::Network or of a v1::Model of one network.
struct NetworkParts {
  const v1::InputSpec& input;
  const google::protobuf::RepeatedPtrField<v1::Layer>& layers;
  const v1::Standardization& standardization;
};

absl::StatusOr<Network> NetworkFromProto(const NetworkParts& proto, const ModelLimits& limits) {
  Network network;
  const absl::StatusOr<InputSpec> input = InputFromProto(proto.input, limits);
  CKN_RETURN_IF_ERROR(Annotate(input.status(), "input"));
  network.input = *input;

  CKN_RETURN_IF_ERROR(CheckRange("layers", proto.layers.size(), 1, limits.max_layers));
  MapShape shape{input->height, input->width, input->MapChannels()};
  CKN_RETURN_IF_ERROR(CheckRange("input: height * width * channels", ValueCount(shape), 1, limits.max_map_values));
  for (int k = 0; k < proto.layers.size(); ++k) {
    const std::string where = absl::StrCat("layer ", k + 1);
    absl::StatusOr<Layer> layer = LayerFromProto(proto.layers[k], limits);
    CKN_RETURN_IF_ERROR(Annotate(layer.status(), where));
    const absl::StatusOr<MapShape> out = OutputShape(*layer, shape);
    CKN_RETURN_IF_ERROR(Annotate(out.status(), where));
    const MapShape activation{ActivationSize(shape.height, layer->patch_size),
                              ActivationSize(shape.width, layer->patch_size), out->channels};
    CKN_RETURN_IF_ERROR(
        Annotate(CheckRange("values of its activation map", ValueCount(activation), 1, limits.max_map_values), where));
    shape = *out;
    network.layers.push_back(*std::move(layer));
    network.learning.push_back(proto.layers[k].learning());
  }
  const std::int64_t features = ValueCount(shape);
  CKN_RETURN_IF_ERROR(CheckRange("features of the last layer", features, 1, limits.max_features));

  const v1::Standardization& standardization = proto.standardization;
  CKN_RETURN_IF_ERROR(CheckFloatBytes("standardization.mean", standardization.mean(), features, 1));
  if (!(standardization.scale() >= 1 / kMaxParameter && standardization.scale() <= kMaxParameter)) {
    return Bad("standardization.scale: got %g, expected %g to %g", standardization.scale(), 1 / kMaxParameter,
               kMaxParameter);
  }
  network.standardization.scale = standardization.scale();
  network.standardization.mean.resize(features);
  ReadFloats(standardization.mean(), Values(network.standardization.mean));
  CKN_RETURN_IF_ERROR(CheckParameters("standardization.mean", Values(network.standardization.mean)));
  return network;
}

// Of a model that has several.
absl::StatusOr<std::vector<Network>> NetworksFromProto(const v1::Model& proto, const ModelLimits& limits) {
  if (proto.has_input() || proto.layers_size() > 0 || proto.has_standardization()) {
    return Bad("input, layers, standardization: got them beside %d networks, expected one or the other",
               proto.networks_size());
  }
  CKN_RETURN_IF_ERROR(CheckRange("networks", proto.networks_size(), 2, limits.max_networks));
  std::vector<Network> networks;
  for (int i = 0; i < proto.networks_size(); ++i) {
    const v1::Network& from = proto.networks(i);
    const std::string where = absl::StrCat("network ", i + 1);
    CKN_RETURN_IF_ERROR(Annotate(CheckText("architecture", from.architecture(), limits), where));
    absl::StatusOr<Network> network = NetworkFromProto({from.input(), from.layers(), from.standardization()}, limits);
    CKN_RETURN_IF_ERROR(Annotate(network.status(), where));
    network->architecture = from.architecture();
    networks.push_back(*std::move(network));
    const absl::Status fits = CheckSameImages(networks.front().input, networks.back().input);
    CKN_RETURN_IF_ERROR(Annotate(fits, where));
  }
  return networks;
}

}  // namespace

absl::Status ValidateText(std::string_view field, const std::string& text, const ModelLimits& limits) {
  return CheckText(field, text, limits);
}

absl::Status CheckSameImages(const InputSpec& first, const InputSpec& other) {
  if (first.height != other.height || first.width != other.width) {
    return Bad("input: got images of %dx%d, expected %dx%d like the first network's", other.height, other.width,
               first.height, first.width);
  }
  if (first.resize != other.resize) return Bad("input: resize: expected the same for all networks");
  return absl::OkStatus();
}

absl::Status ValidateNames(const std::string& model, const std::vector<std::string>& classes,
                           const ModelLimits& limits) {
  CKN_RETURN_IF_ERROR(CheckName("name", model, limits));
  CKN_RETURN_IF_ERROR(CheckRange("class_names", static_cast<std::int64_t>(classes.size()), 2, limits.max_classes));
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const std::string field = absl::StrCat("class_names[", i, "]");
    CKN_RETURN_IF_ERROR(CheckName(field, classes[i], limits));
    if (!seen.insert(classes[i]).second) {
      return Bad("%s: got \"%s\" a second time, expected unique names", field, classes[i]);
    }
  }
  return absl::OkStatus();
}

v1::Layer LayerToProto(const Layer& layer, const v1::LayerLearning& learning) {
  v1::Layer out;
  out.set_patch_size(layer.patch_size);
  out.set_in_channels(layer.in_channels);
  out.set_filters(layer.filter_count());
  out.set_subsampling(layer.subsampling);
  out.set_pooling_radius(layer.pooling_radius);
  out.set_subtract_patch_mean(layer.subtract_patch_mean);
  out.set_learned(layer.learned);
  out.set_sigma(layer.sigma);
  out.set_epsilon(layer.epsilon);
  SetBytes(layer.filters, out.mutable_weights());
  SetBytes(layer.eta, out.mutable_eta());
  SetBytes(layer.projection, out.mutable_projection());
  SetBytes(layer.whitening, out.mutable_whitening());
  *out.mutable_learning() = learning;
  return out;
}

absl::StatusOr<Layer> LayerFromProto(const v1::Layer& proto, const ModelLimits& limits) {
  CKN_RETURN_IF_ERROR(CheckRange("patch_size", proto.patch_size(), 1, limits.max_image_side));
  CKN_RETURN_IF_ERROR(CheckRange("in_channels", proto.in_channels(), 1, limits.max_filters));
  CKN_RETURN_IF_ERROR(CheckRange("filters", proto.filters(), 1, limits.max_filters));
  CKN_RETURN_IF_ERROR(CheckRange("subsampling", proto.subsampling(), 1, limits.max_image_side));
  CKN_RETURN_IF_ERROR(CheckRange("pooling_radius", proto.pooling_radius(), 0, limits.max_image_side));
  const std::int64_t patch_dim = std::int64_t{proto.patch_size()} * proto.patch_size() * proto.in_channels();
  CKN_RETURN_IF_ERROR(CheckRange("patch_size^2 * in_channels", patch_dim, 1, limits.max_patch_dim));
  CKN_RETURN_IF_ERROR(CheckFloatBytes("weights", proto.weights(), proto.filters(), patch_dim));
  CKN_RETURN_IF_ERROR(CheckFloatBytes("eta", proto.eta(), proto.filters(), 1));
  Layer layer;
  layer.patch_size = proto.patch_size();
  layer.in_channels = proto.in_channels();
  layer.subsampling = proto.subsampling();
  layer.pooling_radius = proto.pooling_radius();
  layer.subtract_patch_mean = proto.subtract_patch_mean();
  layer.learned = proto.learned();
  layer.sigma = proto.sigma();
  layer.epsilon = proto.epsilon();
  layer.filters.resize(proto.filters(), patch_dim);
  ReadFloats(proto.weights(), Values(layer.filters));
  layer.eta.resize(proto.filters());
  ReadFloats(proto.eta(), Values(layer.eta));
  CKN_RETURN_IF_ERROR(ReadSquare("projection", proto.projection(), proto.filters(), layer.projection));
  CKN_RETURN_IF_ERROR(ReadSquare("whitening", proto.whitening(), patch_dim, layer.whitening));
  CKN_RETURN_IF_ERROR(ValidateLayer(layer));
  CKN_RETURN_IF_ERROR(CheckLearning(proto.learning(), limits));
  return layer;
}

v1::Model ToProto(const Model& model) {
  v1::Model proto;
  proto.set_name(model.name);
  if (model.networks.size() == 1) {
    v1::Network network = NetworkToProto(model.networks.front());
    proto.mutable_input()->Swap(network.mutable_input());
    proto.mutable_layers()->Swap(network.mutable_layers());
    proto.mutable_standardization()->Swap(network.mutable_standardization());
  } else {
    for (const Network& network : model.networks) *proto.add_networks() = NetworkToProto(network);
  }
  v1::LinearSvm& svm = *proto.mutable_svm();
  svm.set_classes(model.svm.classes());
  svm.set_features(model.svm.features());
  SetBytes(model.svm.weights, svm.mutable_weights());
  SetBytes(model.svm.bias, svm.mutable_bias());
  svm.set_probability_scale(model.svm.probability_scale);
  for (const std::string& name : model.class_names) proto.add_class_names(name);
  AppendFloats(model.residual_quantiles, *proto.mutable_residual_quantiles());
  *proto.mutable_provenance() = model.provenance;
  return proto;
}

absl::StatusOr<Model> FromProto(const v1::Model& proto, const ModelLimits& limits) {
  Model model;
  model.name = proto.name();
  model.class_names.assign(proto.class_names().begin(), proto.class_names().end());
  CKN_RETURN_IF_ERROR(ValidateNames(model.name, model.class_names, limits));
  if (proto.networks_size() == 0) {
    CKN_ASSIGN_OR_RETURN(Network network,
                         NetworkFromProto({proto.input(), proto.layers(), proto.standardization()}, limits));
    network.architecture = proto.provenance().architecture();
    model.networks.push_back(std::move(network));
  } else {
    CKN_ASSIGN_OR_RETURN(model.networks, NetworksFromProto(proto, limits));
  }
  std::int64_t features = 0;
  for (const Network& network : model.networks) features += network.standardization.mean.size();
  CKN_RETURN_IF_ERROR(CheckRange("features of all networks", features, 1, limits.max_features));

  const v1::LinearSvm& svm = proto.svm();
  if (svm.classes() != proto.class_names_size()) {
    return Bad("svm.classes: got %d, expected %d, one a class name", svm.classes(), proto.class_names_size());
  }
  if (svm.features() != features) {
    return Bad("svm.features: got %d, expected %d, the features of the last layer%s", svm.features(), features,
               model.networks.size() == 1 ? "" : "s");
  }
  CKN_RETURN_IF_ERROR(CheckFloatBytes("svm.weights", svm.weights(), svm.classes(), features));
  CKN_RETURN_IF_ERROR(CheckFloatBytes("svm.bias", svm.bias(), svm.classes(), 1));
  model.svm.weights.resize(svm.classes(), features);
  ReadFloats(svm.weights(), Values(model.svm.weights));
  CKN_RETURN_IF_ERROR(CheckParameters("svm.weights", Values(model.svm.weights)));
  model.svm.bias.resize(svm.classes());
  ReadFloats(svm.bias(), Values(model.svm.bias));
  CKN_RETURN_IF_ERROR(CheckParameters("svm.bias", Values(model.svm.bias)));
  if (!(svm.probability_scale() >= 0 && svm.probability_scale() <= kMaxParameter)) {
    return Bad("svm.probability_scale: got %g, expected 0 to %g", svm.probability_scale(), kMaxParameter);
  }
  model.svm.probability_scale = svm.probability_scale();

  CKN_RETURN_IF_ERROR(ReadResidualQuantiles(proto.residual_quantiles(), limits, model.residual_quantiles));

  CKN_RETURN_IF_ERROR(Annotate(CheckProvenance(proto.provenance(), limits), "provenance"));
  model.provenance = proto.provenance();
  return model;
}

}  // namespace ckn
