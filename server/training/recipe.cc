#include "server/training/recipe.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/quote.h"
#include "server/base/regular_file.h"
#include "server/base/status.h"
#include "server/base/utf8.h"
#include "server/store/model_proto.h"

namespace ckn {
namespace {

struct BuiltIn {
  const char* name;
  const char* text;
};

// Table 3. N, m_k, p_k and gamma_1 as printed; the last layer by its output size S. CKN-PM1 has one layer, for which
// the table's gamma_1 = 2 contradicts S = 4: gamma follows from S.
// Algorithm 1 takes the 0.1 quantile for sigma "if not provided by the user". For MNIST's last layers the quantile, and
// the support of the pooling filter, are those with the least validation error on 300 and 2,000 images, for CIFAR-10's
// on 4,000 and 10,000; models/RESULTS.md has the networks without ("defaults") beside them.
constexpr BuiltIn kBuiltIn[] = {
    {"ckn-gm1",
     "input { map: INPUT_MAP_GRADIENT } layers { patch_size: 1 filters: 12 subsampling: 2 pooling_support: 2 } "
     "layers { patch_size: 3 filters: 50 output_size: 4 pooling_support: 2 }"},
    {"ckn-gm2",
     "input { map: INPUT_MAP_GRADIENT } layers { patch_size: 1 filters: 12 subsampling: 2 } "
     "layers { patch_size: 3 filters: 400 output_size: 3 sigma_quantile: 0.01 }"},
    {"ckn-pm1", "layers { patch_size: 5 filters: 200 output_size: 4 sigma_quantile: 0.02 }"},
    {"ckn-pm2",
     "layers { patch_size: 5 filters: 50 subsampling: 2 } "
     "layers { patch_size: 2 filters: 200 output_size: 6 pooling_support: 2 sigma_quantile: 0.02 }"},
    {"ckn-gm-cifar10",
     "input { map: INPUT_MAP_GRADIENT } layers { patch_size: 1 filters: 12 subsampling: 2 pooling_support: 2 } "
     "layers { patch_size: 2 filters: 800 output_size: 4 pooling_support: 2 sigma_quantile: 0.01 "
     "principal_components: 36 pairs_factor: 3 }"},
    {"ckn-pm-cifar10",
     "layers { patch_size: 2 filters: 100 subsampling: 2 } "
     "layers { patch_size: 2 filters: 800 output_size: 4 sigma_quantile: 0.003 principal_components: 64 "
     "pairs_factor: 3 }"},
    {"ckn-gm-stl10",
     "input { map: INPUT_MAP_GRADIENT } layers { patch_size: 1 filters: 12 subsampling: 2 } "
     "layers { patch_size: 3 filters: 800 output_size: 4 }"},
    {"ckn-pm-stl10",
     "layers { patch_size: 3 filters: 50 subsampling: 2 } layers { patch_size: 3 filters: 800 output_size: 3 }"},
    {"ckn-co-mnist", "parts { name: 'ckn-gm2' } parts { name: 'ckn-pm1' }"},
    {"ckn-co-cifar10", "parts { name: 'ckn-gm-cifar10' } parts { name: 'ckn-pm-cifar10' }"},
    {"ckn-co-stl10", "parts { name: 'ckn-gm-stl10' } parts { name: 'ckn-pm-stl10' }"},
    // Not the paper's: more filters, whitened patches, mirror images. To be learned by nystrom.
    {"ckn-wide-cifar10",
     "parts { name: 'ckn-wide-gm-cifar10' input { map: INPUT_MAP_GRADIENT mirror: true } "
     "layers { patch_size: 1 filters: 12 subsampling: 2 } "
     "layers { patch_size: 3 filters: 1024 output_size: 4 sigma_quantile: 0.01 } } "
     "parts { name: 'ckn-wide-pm-cifar10' input { mirror: true } "
     "layers { patch_size: 3 filters: 256 subsampling: 2 whiten: true sigma: 0.6 } "
     "layers { patch_size: 3 filters: 1024 output_size: 4 sigma: 0.6 } }"},
};

// Keeps the first error with its place.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!message_.empty()) return;
    // It quotes the file, at whatever length.
    constexpr std::size_t kMaxBytes = 200;
    message_ =
        absl::StrFormat("line %d, column %d: %s", line + 1, column + 1, Printable(Utf8Prefix(message, kMaxBytes)));
  }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  std::string message_;
};

absl::StatusOr<v1::Recipe> ParseRecipe(const std::string& text) {
  v1::Recipe recipe;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &recipe)) return absl::InvalidArgumentError(error.message());
  return recipe;
}

// A recipe is a page of text. Sizes stay within what the reader of model files accepts (ModelLimits).
constexpr std::uint64_t kMaxRecipeBytes = std::uint64_t{1} << 20;
constexpr ModelLimits kLimits;
constexpr int kMaxSide = kLimits.max_image_side;
constexpr int kMaxFilters = kLimits.max_filters;
constexpr int kMaxPairsFactor = 100;
constexpr int kMaxDecomposedDim = 4096;  // of patches whose covariance is decomposed

// Sizes that no reader of model files would accept are refused before hours of work.
absl::Status CheckSizes(int layer, const v1::LayerRecipe& recipe, const MapShape& below) {
  const std::int64_t patch = std::int64_t{recipe.patch_size()} * recipe.patch_size() * below.channels;
  if (patch > kLimits.max_patch_dim) {
    return absl::InvalidArgumentError(
        absl::StrFormat("layer %d: a patch of %dx%dx%d has %d values, expected at most %d", layer, recipe.patch_size(),
                        recipe.patch_size(), below.channels, patch, kLimits.max_patch_dim));
  }
  if (recipe.principal_components() < 0 || recipe.principal_components() > patch) {
    return absl::InvalidArgumentError(
        absl::StrFormat("layer %d: principal_components: got %d, expected 0 (all) to %d, the values of a patch", layer,
                        recipe.principal_components(), patch));
  }
  if ((recipe.whiten() || recipe.principal_components() > 0) && patch > kMaxDecomposedDim) {
    return absl::InvalidArgumentError(absl::StrFormat("layer %d: %s: a patch has %d values, expected at most %d", layer,
                                                      recipe.whiten() ? "whiten" : "principal_components", patch,
                                                      kMaxDecomposedDim));
  }
  const std::int64_t activation = std::int64_t{ActivationSize(below.height, recipe.patch_size())} *
                                  ActivationSize(below.width, recipe.patch_size()) * recipe.filters();
  if (activation > kLimits.max_map_values) {
    return absl::InvalidArgumentError(absl::StrFormat("layer %d: its activation map has %d values, expected at most %d",
                                                      layer, activation, kLimits.max_map_values));
  }
  return absl::OkStatus();
}

absl::Status WrongValue(int layer, const char* field, double got, const char* expected) {
  return absl::InvalidArgumentError(absl::StrFormat("layer %d: %s: got %g, expected %s", layer, field, got, expected));
}

}  // namespace

std::vector<std::string> BuiltInRecipeNames() {
  std::vector<std::string> names;
  for (const BuiltIn& entry : kBuiltIn) names.emplace_back(entry.name);
  return names;
}

absl::StatusOr<v1::Recipe> BuiltInRecipe(const std::string& name) {
  for (const BuiltIn& entry : kBuiltIn) {
    if (name != entry.name) continue;
    CKN_ASSIGN_OR_RETURN(v1::Recipe recipe, ParseRecipe(entry.text));
    recipe.set_name(name);
    return recipe;
  }
  return absl::NotFoundError(absl::StrCat("architecture ", Quote(name), ": unknown, expected one of ",
                                          absl::StrJoin(BuiltInRecipeNames(), ", ")));
}

absl::StatusOr<v1::Recipe> ReadRecipeFile(const std::string& path) {
  const auto read = [&]() -> absl::StatusOr<v1::Recipe> {
    CKN_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxRecipeBytes));
    return ParseRecipe(text);
  };
  absl::StatusOr<v1::Recipe> recipe = read();
  if (!recipe.ok()) return Annotate(recipe.status(), path);
  return recipe;
}

absl::StatusOr<NetworkPlan> ResolveRecipe(const v1::Recipe& recipe, int height, int width, int channels) {
  if (recipe.parts_size() > 0) return absl::InvalidArgumentError("parts: expected none in a part");
  CKN_RETURN_IF_ERROR(ValidateText("name", recipe.name()));
  NetworkPlan plan;
  plan.name = recipe.name();
  const v1::InputSpec& input = recipe.input();
  plan.input.height = input.height() > 0 ? input.height() : height;
  plan.input.width = input.width() > 0 ? input.width() : width;
  plan.input.channels = input.channels() > 0 ? input.channels() : channels;
  plan.input.resize = input.resize() == v1::RESIZE_POLICY_STRETCH ? ResizePolicy::kStretch : ResizePolicy::kReject;
  plan.input.map = input.map() == v1::INPUT_MAP_GRADIENT ? InputMap::kGradient : InputMap::kPixels;
  plan.input.mirror = input.mirror();
  if (input.height() < 0 || input.width() < 0 || input.height() > kMaxSide || input.width() > kMaxSide) {
    return absl::InvalidArgumentError(
        absl::StrFormat("input: got %dx%d, expected sizes of 1 to %d", input.height(), input.width(), kMaxSide));
  }
  if (!v1::ResizePolicy_IsValid(input.resize()) || !v1::InputMap_IsValid(input.map())) {
    return absl::InvalidArgumentError(absl::StrFormat("input: got resize %d and map %d, expected known values",
                                                      static_cast<int>(input.resize()), static_cast<int>(input.map())));
  }
  if (plan.input.channels != 1 && plan.input.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrFormat("input: channels: got %d, expected 1 (gray) or 3 (colour)", plan.input.channels));
  }
  if (plan.input.resize == ResizePolicy::kReject && (plan.input.height != height || plan.input.width != width)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("input: the recipe takes %dx%d images, the data have %dx%d; set resize: RESIZE_POLICY_STRETCH "
                        "or leave the size out",
                        plan.input.height, plan.input.width, height, width));
  }
  if (recipe.layers().empty() || recipe.layers_size() > kLimits.max_layers) {
    return absl::InvalidArgumentError(
        absl::StrFormat("layers: got %d, expected 1 to %d", recipe.layers_size(), kLimits.max_layers));
  }

  plan.shapes.push_back({plan.input.height, plan.input.width, plan.input.MapChannels()});
  for (int k = 0; k < recipe.layers_size(); ++k) {
    const v1::LayerRecipe& from = recipe.layers(k);
    const MapShape& below = plan.shapes.back();
    const bool orientations = k == 0 && plan.input.map == InputMap::kGradient;
    if (from.patch_size() < 1) return WrongValue(k + 1, "patch_size", from.patch_size(), "at least 1");
    if (from.filters() > kMaxFilters) return WrongValue(k + 1, "filters", from.filters(), "at most 65536");
    if (from.subsampling() > kMaxSide) return WrongValue(k + 1, "subsampling", from.subsampling(), "at most 16384");
    if (from.filters() < 1) return WrongValue(k + 1, "filters", from.filters(), "at least 1");
    if (orientations && from.patch_size() != 1) {
      return WrongValue(k + 1, "patch_size", from.patch_size(), "1, the first layer of a gradient map");
    }
    if ((from.subsampling() > 0) == (from.output_size() > 0) || from.subsampling() < 0 || from.output_size() < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("layer %d: got subsampling %d and output_size %d, expected exactly one of them, positive",
                          k + 1, from.subsampling(), from.output_size()));
    }
    if (from.pooling_support() < 0 || from.pooling_support() > kMaxSide) {
      return WrongValue(k + 1, "pooling_support", from.pooling_support(), "0 (the default) to 16384");
    }
    if (!(from.sigma() == 0 || (from.sigma() >= kMinSigma && from.sigma() <= kMaxParameter))) {
      return WrongValue(k + 1, "sigma", from.sigma(), "0 (by quantile) or 0.001 to 1e9");
    }
    if (!(from.sigma_quantile() >= 0 && from.sigma_quantile() < 1)) {
      return WrongValue(k + 1, "sigma_quantile", from.sigma_quantile(), "0 (the default) or between 0 and 1");
    }
    if (!(from.whitening_floor() == 0 || (from.whitening_floor() >= 1e-9 && from.whitening_floor() <= 1))) {
      return WrongValue(k + 1, "whitening_floor", from.whitening_floor(), "0 (the default) or 1e-9 to 1");
    }
    if (from.pairs_factor() < 0 || from.pairs_factor() > kMaxPairsFactor) {
      return WrongValue(k + 1, "pairs_factor", from.pairs_factor(), "0 (the default) to 100");
    }
    if (from.whiten() && (k > 0 || orientations)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("layer %d: whiten: only the first layer of a pixel map can do it", k + 1));
    }
    if (from.has_subtract_patch_mean() && from.subtract_patch_mean() && (k > 0 || orientations)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("layer %d: subtract_patch_mean: only the first layer of a pixel map can do it", k + 1));
    }
    const int activation = ActivationSize(std::min(below.height, below.width), from.patch_size());
    const int longest = ActivationSize(std::max(below.height, below.width), from.patch_size());
    if (activation < 1) {
      return absl::InvalidArgumentError(
          absl::StrFormat("layer %d: patch_size: got %d, expected at most the map below, %dx%d", k + 1,
                          from.patch_size(), below.height, below.width));
    }
    if (from.output_size() > longest) {
      return absl::InvalidArgumentError(
          absl::StrFormat("layer %d: output_size: got %d, expected at most %d, the size of the activation map", k + 1,
                          from.output_size(), longest));
    }
    LayerPlan layer;
    layer.filters = from.filters();
    layer.sigma = from.sigma();
    layer.sigma_quantile = from.sigma_quantile() > 0 ? from.sigma_quantile() : 0.1;
    layer.whiten = from.whiten();
    if (from.whitening_floor() > 0) layer.whitening_floor = from.whitening_floor();
    layer.principal_components = from.principal_components();
    layer.pairs_factor = std::max(1, from.pairs_factor());
    layer.layer.patch_size = from.patch_size();
    layer.layer.in_channels = below.channels;
    layer.layer.subsampling =
        from.subsampling() > 0 ? from.subsampling() : (longest + from.output_size() - 1) / from.output_size();
    // Taps beyond the map would all be outside.
    layer.layer.pooling_radius = static_cast<int>(
        std::min<std::int64_t>(std::int64_t{std::max(1, from.pooling_support())} * layer.layer.subsampling, kMaxSide));
    layer.layer.learned = !orientations;
    layer.layer.subtract_patch_mean =
        k == 0 && !orientations &&
        (from.has_subtract_patch_mean() ? from.subtract_patch_mean() : plan.input.channels == 3);
    plan.shapes.push_back({PooledSize(ActivationSize(below.height, from.patch_size()), layer.layer.subsampling),
                           PooledSize(ActivationSize(below.width, from.patch_size()), layer.layer.subsampling),
                           from.filters()});
    plan.layers.push_back(std::move(layer));
    CKN_RETURN_IF_ERROR(CheckSizes(k + 1, from, plan.shapes[k]));
  }
  const MapShape& last = plan.shapes.back();
  if (const std::int64_t features = std::int64_t{last.height} * last.width * last.channels;
      features > kLimits.max_features) {
    return absl::InvalidArgumentError(absl::StrFormat("the last map, %dx%dx%d, has %d values, expected at most %d",
                                                      last.height, last.width, last.channels, features,
                                                      kLimits.max_features));
  }
  return plan;
}

absl::StatusOr<std::vector<NetworkPlan>> ResolveRecipes(const v1::Recipe& recipe, int height, int width, int channels) {
  std::vector<NetworkPlan> plans;
  CKN_RETURN_IF_ERROR(ValidateText("name", recipe.name()));
  if (recipe.parts_size() == 0) {
    CKN_ASSIGN_OR_RETURN(NetworkPlan plan, ResolveRecipe(recipe, height, width, channels));
    plans.push_back(std::move(plan));
    return plans;
  }
  if (recipe.has_input() || recipe.layers_size() > 0) {
    return absl::InvalidArgumentError("got parts beside input or layers, expected one or the other");
  }
  if (recipe.parts_size() == 1 || recipe.parts_size() > kLimits.max_networks) {
    return absl::InvalidArgumentError(
        absl::StrFormat("parts: got %d, expected 2 to %d", recipe.parts_size(), kLimits.max_networks));
  }
  std::int64_t features = 0;
  for (int i = 0; i < recipe.parts_size(); ++i) {
    const std::string where = absl::StrFormat("part %d", i + 1);
    v1::Recipe part = recipe.parts(i);
    if (part.layers_size() == 0 && part.parts_size() == 0) {
      const absl::StatusOr<v1::Recipe> built_in = BuiltInRecipe(part.name());
      CKN_RETURN_IF_ERROR(Annotate(built_in.status(), where));
      const v1::InputSpec input = part.input();
      part = *built_in;
      part.mutable_input()->MergeFrom(input);
    }
    if (part.name().empty()) part.set_name(where);
    absl::StatusOr<NetworkPlan> plan = ResolveRecipe(part, height, width, channels);
    CKN_RETURN_IF_ERROR(Annotate(plan.status(), where));
    plans.push_back(*std::move(plan));
    CKN_RETURN_IF_ERROR(Annotate(CheckSameImages(plans.front().input, plans.back().input), where));
    const MapShape& last = plans.back().shapes.back();
    features += std::int64_t{last.height} * last.width * last.channels;
  }
  if (features > kLimits.max_features) {
    return absl::InvalidArgumentError(
        absl::StrFormat("parts: got %d features in all, expected at most %d", features, kLimits.max_features));
  }
  return plans;
}

}  // namespace ckn
