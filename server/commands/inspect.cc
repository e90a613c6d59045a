// ckn inspect: what is in a model file and where it came from.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/atomic_file.h"
#include "server/base/status.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/commands/draw_filters.h"
#include "server/image/encode_png.h"
#include "server/store/model_file.h"

namespace ckn {
namespace {

using Json = nlohmann::ordered_json;

struct InspectFlags {
  std::string file, filters;
  int network = 1;  // 1-based
  int layer = 0;    // 1-based; 0: the first learned one
  bool json = false;
};

// A network with what follows from it.
struct NetworkFacts {
  explicit NetworkFacts(const Network& of) : network(of) {
    shapes.push_back({network.input.height, network.input.width, network.input.MapChannels()});
    for (const Layer& layer : network.layers) {
      const MapShape& in = shapes.back();
      activations.push_back({ActivationSize(in.height, layer.patch_size), ActivationSize(in.width, layer.patch_size),
                             layer.filter_count()});
      // Reading the file checked that every layer fits the one below.
      shapes.push_back(*OutputShape(layer, in));
    }
  }

  const Network& network;
  std::vector<MapShape> shapes;       // of xi_k, k = 0 is the input
  std::vector<MapShape> activations;  // of zeta_k, k = 1 is activations[0]
};

struct EtaStatistics {
  int dead = 0;  // exactly 0: the bound of problem (4) holds and the filter adds nothing
  float min = 0, median = 0, max = 0;
};

EtaStatistics SummarizeEta(const Layer& layer) {
  std::vector<float> eta(layer.eta.begin(), layer.eta.end());
  std::sort(eta.begin(), eta.end());
  return {static_cast<int>(std::count(eta.begin(), eta.end(), 0.0F)), eta.front(), eta[eta.size() / 2], eta.back()};
}

std::string Side(int height, int width) { return absl::StrCat(height, "x", width); }
std::string Shape(const MapShape& shape) { return absl::StrCat(Side(shape.height, shape.width), "x", shape.channels); }

Json ShapeJson(const MapShape& shape) { return {shape.height, shape.width, shape.channels}; }

const char* InputMapName(InputMap map) { return map == InputMap::kGradient ? "gradient" : "pixels"; }
const char* ResizeName(ResizePolicy policy) { return policy == ResizePolicy::kStretch ? "stretch" : "reject"; }

// C is searched over powers of two.
std::string PowerOfTwo(double value) {
  int exponent = 0;
  if (std::frexp(value, &exponent) == 0.5) return absl::StrCat("2^", exponent - 1);
  return absl::StrFormat("%g", value);
}

// Columns of equal width, the first one to the left.
class Table {
 public:
  void Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void Print() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        std::printf("  %*s", static_cast<int>(widths[i]) * (i == 0 ? -1 : 1), row[i].c_str());
      }
      std::printf("\n");
    }
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Rows of the paper's table 3, continued in the same way for more than two layers.
void PrintArchitecture(const Model& model, const std::vector<NetworkFacts>& networks) {
  std::size_t shown = 2;
  for (const NetworkFacts& facts : networks) shown = std::max(shown, facts.network.layers.size());
  std::vector<std::string> head = {"Arch.", "N"};
  for (std::size_t k = 1; k <= shown; ++k) {
    head.insert(head.end(), {absl::StrCat("m", k), absl::StrCat("p", k)});
    if (k < shown) head.push_back(absl::StrCat("gamma", k));
  }
  head.insert(head.end(), {"S", "# param"});
  Table table;
  table.Row(std::move(head));
  for (const NetworkFacts& facts : networks) {
    const Network& network = facts.network;
    std::vector<std::string> row = {network.architecture.empty() ? model.name : network.architecture,
                                    absl::StrCat(network.layers.size())};
    for (std::size_t k = 0; k < shown; ++k) {
      const Layer* const layer = k < network.layers.size() ? &network.layers[k] : nullptr;
      row.push_back(layer != nullptr ? Side(layer->patch_size, layer->patch_size) : "-");
      row.push_back(layer != nullptr ? absl::StrCat(layer->filter_count()) : "-");
      if (k + 1 < shown) row.push_back(layer != nullptr ? absl::StrCat(layer->subsampling) : "-");
    }
    row.push_back(Side(facts.shapes.back().height, facts.shapes.back().width));
    row.push_back(Thousands(ParameterCount(network.layers)));
    table.Row(std::move(row));
  }
  std::printf("\nArchitecture\n");
  table.Print();
}

void PrintLayers(const NetworkFacts& facts) {
  Table table;
  table.Row({"layer", "input", "patch", "activation", "gamma", "radius", "output", "sigma", "eta min", "median", "max",
             "dead"});
  for (std::size_t k = 0; k < facts.network.layers.size(); ++k) {
    const Layer& layer = facts.network.layers[k];
    const EtaStatistics eta = SummarizeEta(layer);
    table.Row({absl::StrCat(k + 1, layer.learned ? "" : " fixed"), Shape(facts.shapes[k]),
               absl::StrCat(Side(layer.patch_size, layer.patch_size), layer.subtract_patch_mean ? " centred" : "",
                            layer.whitening.size() > 0 ? " whitened" : ""),
               Shape(facts.activations[k]), absl::StrCat(layer.subsampling), absl::StrCat(layer.pooling_radius),
               Shape(facts.shapes[k + 1]), absl::StrFormat("%.4g", layer.sigma), absl::StrFormat("%.3g", eta.min),
               absl::StrFormat("%.3g", eta.median), absl::StrFormat("%.3g", eta.max),
               absl::StrCat(eta.dead, " of ", layer.filter_count())});
  }
  std::printf("\nLayers (dead: filters whose eta is exactly 0)\n");
  table.Print();
}

void PrintLearning(const Network& network) {
  Table table;
  table.Row({"layer", "pairs", "components", "initialisation", "iterations", "objective", "start", "held out",
             "stopped because"});
  bool any = false;
  for (std::size_t k = 0; k < network.layers.size(); ++k) {
    const v1::LayerLearning& learning = network.learning[k];
    if (!network.layers[k].learned || learning.pairs() == 0) continue;
    any = true;
    table.Row({absl::StrCat(k + 1), Thousands(learning.pairs()),
               learning.principal_components() > 0 ? absl::StrCat(learning.principal_components()) : "all",
               learning.initialisation(), absl::StrCat(learning.iterations()),
               absl::StrFormat("%.4g", learning.objective()), absl::StrFormat("%.4g", learning.objective_start()),
               absl::StrFormat("%.4g", learning.held_out_objective()), learning.stop_reason()});
  }
  if (!any) return;
  std::printf("\nLearning of the layers (problem (4): mean squared error of the kernel over pairs of patches)\n");
  table.Print();
}

void PrintProvenance(const Model& model) {
  const v1::Provenance& from = model.provenance;
  std::printf("\nClassifier\n  one-vs-rest linear SVM, %s features, %zu classes, C = %s\n",
              Thousands(model.svm.features()).c_str(), model.class_names.size(), PowerOfTwo(from.svm_c()).c_str());
  std::string names;
  for (const std::string& name : model.class_names) {
    constexpr std::size_t kMaxShown = 200;
    if (names.size() > kMaxShown) {
      names += ", ...";
      break;
    }
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  }
  std::printf("  classes: %s\n", names.c_str());
  for (const Network& network : model.networks) {
    std::printf("  features%s centred, divided by %g\n",
                model.networks.size() == 1 ? "" : absl::StrCat(" of ", network.architecture).c_str(),
                static_cast<double>(network.standardization.scale));
  }

  if (model.svm.probability_scale > 0) {
    std::printf("  probabilities softmax(%g * scores), calibrated on the validation images\n",
                static_cast<double>(model.svm.probability_scale));
  } else {
    std::printf("  no probabilities: not calibrated\n");
  }

  std::printf("\nProvenance\n");
  const auto line = [](const char* key, const std::string& value) {
    if (!value.empty()) std::printf("  %-16s  %s\n", key, value.c_str());
  };
  line("program", from.program_version());
  line("decoders", from.decoders());
  line("command", from.command());
  line("data", from.dataset());
  line("data sha256", from.dataset_sha256());
  line("training images", Thousands(from.train_count()));
  line("seed", absl::StrCat(from.seed()));
  if (!from.validation().empty()) {
    line("validation", absl::StrFormat("error %.2f %% (%s)", from.validation_error_percent(), from.validation()));
  }
  if (from.has_test_error_percent()) {
    line("test",
         absl::StrFormat("error %.2f %% on %s images", from.test_error_percent(), Thousands(from.test_count())));
  }
  if (from.validation_curve_size() == 0) return;
  std::printf("\nValidation error against C (*: chosen)\n");
  Table table;
  for (const v1::ValidationPoint& point : from.validation_curve()) {
    std::vector<std::string> row = {PowerOfTwo(point.svm_c()), absl::StrFormat("%.2f %%", point.error_percent())};
    if (point.svm_c() == from.svm_c()) row.emplace_back("*");
    table.Row(std::move(row));
  }
  table.Print();
}

// Of the training images' residuals, see Novelty in inference.proto.
constexpr std::pair<const char*, double> kResidualQuantiles[] = {
    {"0.01", 0.01}, {"0.5", 0.5}, {"0.99", 0.99}, {"1", 1}};

float ResidualQuantile(const Model& model, double part) {
  const auto last = static_cast<double>(model.residual_quantiles.size() - 1);
  return model.residual_quantiles[static_cast<std::size_t>(std::llround(part * last))];
}

void PrintResiduals(const Model& model) {
  if (model.residual_quantiles.empty()) return;
  std::printf("\nNovelty: residual of the training images\n  quantile");
  for (const auto& [name, part] : kResidualQuantiles) std::printf("  %8s", name);
  std::printf("\n  residual");
  for (const auto& [name, part] : kResidualQuantiles) std::printf("  %8.4f", ResidualQuantile(model, part));
  std::printf("\n");
}

void PrintText(const LoadedModel& loaded, const std::vector<NetworkFacts>& networks, const std::string& path) {
  const Model& model = loaded.model;
  std::printf("%s\n", model.name.c_str());
  std::printf("  file    %s, %s bytes, sha256 %s\n", path.c_str(), Thousands(loaded.file_bytes).c_str(),
              loaded.sha256.c_str());
  for (const NetworkFacts& facts : networks) {
    const InputSpec& input = facts.network.input;
    std::printf("  input   %s pixels, %s, %s%s; another size is %s\n", Side(input.height, input.width).c_str(),
                input.channels == 1 ? "gray" : "RGB", input.map == InputMap::kGradient ? "gradient map" : "pixel map",
                input.mirror ? ", mean with the mirror image" : "",
                input.resize == ResizePolicy::kStretch ? "stretched" : "refused");
    std::printf("  output  %s features (%s)\n", Thousands(facts.network.standardization.mean.size()).c_str(),
                Shape(facts.shapes.back()).c_str());
  }
  PrintArchitecture(model, networks);
  for (const NetworkFacts& facts : networks) {
    if (networks.size() > 1) std::printf("\n%s", facts.network.architecture.c_str());
    PrintLayers(facts);
    PrintLearning(facts.network);
  }
  PrintResiduals(model);
  PrintProvenance(model);
}

Json LayerJson(const NetworkFacts& facts, std::size_t k) {
  const Layer& layer = facts.network.layers[k];
  const EtaStatistics eta = SummarizeEta(layer);
  Json json;
  json["learned"] = layer.learned;
  json["patch_size"] = layer.patch_size;
  json["filters"] = layer.filter_count();
  json["subsampling"] = layer.subsampling;
  json["pooling_radius"] = layer.pooling_radius;
  json["subtract_patch_mean"] = layer.subtract_patch_mean;
  json["whitened"] = layer.whitening.size() > 0;
  json["projected"] = layer.projection.size() > 0;
  json["sigma"] = layer.sigma;
  json["epsilon"] = layer.epsilon;
  json["parameters"] = layer.learned ? layer.filters.size() : 0;
  json["input_shape"] = ShapeJson(facts.shapes[k]);
  json["activation_shape"] = ShapeJson(facts.activations[k]);
  json["output_shape"] = ShapeJson(facts.shapes[k + 1]);
  json["eta"] = {{"min", eta.min}, {"median", eta.median}, {"max", eta.max}, {"dead", eta.dead}};
  const v1::LayerLearning& learning = facts.network.learning[k];
  if (layer.learned && learning.pairs() > 0) {
    json["learning"] = {{"pairs", learning.pairs()},
                        {"principal_components", learning.principal_components()},
                        {"initialisation", learning.initialisation()},
                        {"iterations", learning.iterations()},
                        {"objective_start", learning.objective_start()},
                        {"objective", learning.objective()},
                        {"held_out_objective", learning.held_out_objective()},
                        {"stop_reason", learning.stop_reason()}};
  } else {
    json["learning"] = nullptr;
  }
  return json;
}

void AddNetwork(const NetworkFacts& facts, Json& json) {
  const Network& network = facts.network;
  json["input"] = {{"height", network.input.height},
                   {"width", network.input.width},
                   {"channels", network.input.channels},
                   {"map", InputMapName(network.input.map)},
                   {"resize", ResizeName(network.input.resize)},
                   {"mirror", network.input.mirror}};
  json["parameters"] = ParameterCount(network.layers);
  json["output_size"] = {facts.shapes.back().height, facts.shapes.back().width};
  json["features"] = network.standardization.mean.size();
  json["layers"] = Json::array();
  for (std::size_t k = 0; k < network.layers.size(); ++k) json["layers"].push_back(LayerJson(facts, k));
  json["standardization_scale"] = network.standardization.scale;
}

void PrintJson(const LoadedModel& loaded, const std::vector<NetworkFacts>& networks, const std::string& path) {
  const Model& model = loaded.model;
  const v1::Provenance& from = model.provenance;
  Json json;
  json["name"] = model.name;
  json["file"] = path;
  json["file_bytes"] = loaded.file_bytes;
  json["sha256"] = loaded.sha256;
  if (networks.size() == 1) {
    AddNetwork(networks.front(), json);
  } else {
    json["parameters"] = ParameterCount(model);
    json["features"] = model.svm.features();
    json["networks"] = Json::array();
    for (const NetworkFacts& facts : networks) {
      Json network;
      network["architecture"] = facts.network.architecture;
      AddNetwork(facts, network);
      json["networks"].push_back(std::move(network));
    }
  }
  json["probability_scale"] = model.svm.probability_scale > 0 ? Json(model.svm.probability_scale) : Json();
  json["residual_quantiles"] = nullptr;
  if (!model.residual_quantiles.empty()) {
    Json& quantiles = json["residual_quantiles"];
    for (const auto& [name, part] : kResidualQuantiles) quantiles[name] = ResidualQuantile(model, part);
  }
  json["classes"] = model.class_names;
  Json& provenance = json["provenance"];
  provenance["program_version"] = from.program_version();
  provenance["decoders"] = from.decoders();
  provenance["architecture"] = from.architecture();
  provenance["command"] = from.command();
  provenance["dataset"] = from.dataset();
  provenance["dataset_sha256"] = from.dataset_sha256();
  provenance["train_count"] = from.train_count();
  provenance["seed"] = from.seed();
  provenance["svm_c"] = from.svm_c();
  provenance["validation"] = from.validation();
  provenance["validation_error_percent"] = from.validation().empty() ? Json() : Json(from.validation_error_percent());
  provenance["test_error_percent"] = from.has_test_error_percent() ? Json(from.test_error_percent()) : Json();
  provenance["test_count"] = from.test_count();
  provenance["validation_curve"] = Json::array();
  for (const v1::ValidationPoint& point : from.validation_curve()) {
    provenance["validation_curve"].push_back({{"svm_c", point.svm_c()}, {"error_percent", point.error_percent()}});
  }
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

absl::Status WriteFilters(const Model& model, const InspectFlags& flags) {
  if (std::cmp_greater(flags.network, model.networks.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--network: got ", flags.network, ", expected 1 to ", model.networks.size()));
  }
  const Network& network = model.networks[static_cast<std::size_t>(flags.network) - 1];
  const int layers = static_cast<int>(network.layers.size());
  int layer = flags.layer;
  if (layer == 0) {
    const auto learned =
        std::find_if(network.layers.begin(), network.layers.end(), [](const Layer& l) { return l.learned; });
    if (learned == network.layers.end())
      return absl::InvalidArgumentError("the network has no learned layer, see --layer");
    layer = static_cast<int>(learned - network.layers.begin()) + 1;
  }
  if (layer > layers) {
    return absl::InvalidArgumentError(absl::StrCat("--layer: got ", layer, ", expected 1 to ", layers));
  }
  const Layer& drawn = network.layers[static_cast<std::size_t>(layer) - 1];
  constexpr std::int64_t kMaxWeights = 1 << 22;  // the picture takes about 40 pixels a weight
  if (drawn.filters.size() > kMaxWeights) {
    return absl::InvalidArgumentError(absl::StrCat("--filters: layer ", layer, " has ", drawn.filters.size(),
                                                   " weights, expected at most ", kMaxWeights, " to draw"));
  }
  CKN_ASSIGN_OR_RETURN(const std::string png, EncodePng(DrawFilters(drawn)));
  CKN_RETURN_IF_ERROR(WriteFileAtomically(flags.filters, png));
  std::fprintf(stderr, "%s: %d filters of layer %d\n", flags.filters.c_str(), drawn.filter_count(), layer);
  return absl::OkStatus();
}

absl::Status RunInspect(const InspectFlags& flags) {
  CKN_ASSIGN_OR_RETURN(const LoadedModel loaded, ReadModelFile(flags.file));
  CKN_RETURN_IF_ERROR(CheckOutput(flags.filters, {flags.file}));
  if (!flags.filters.empty()) CKN_RETURN_IF_ERROR(WriteFilters(loaded.model, flags));
  std::vector<NetworkFacts> networks;
  for (const Network& network : loaded.model.networks) networks.emplace_back(network);
  if (flags.json) {
    PrintJson(loaded, networks, flags.file);
  } else {
    PrintText(loaded, networks, flags.file);
  }
  return absl::OkStatus();
}

}  // namespace

void AddInspectCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* const command = app.add_subcommand("inspect", "Show what is in a model file and where it came from");
  command->footer(
      "Example:\n"
      "  ckn inspect models/mnist.ckn --filters filters.png\n"
      "The architecture is printed as in table 3 of the paper: layers N, patch sizes m, filters p, subsampling gamma,\n"
      "size S of the last map, and the number of learned weights. A model of several networks has a row for each; in\n"
      "JSON, what belongs to a network is then in the list \"networks\".\n"
      "In the picture the filters stand row by row, largest eta first, each one scaled to full contrast. Filters on\n"
      "one channel are gray, on three channels RGB; of any other number, a filter's channels are gray tiles side by\n"
      "side.");
  command->add_option("FILE", flags->file, "Model file")->required();
  command->add_flag("--json", flags->json, "Print JSON instead of tables");
  CLI::Option* const filters =
      command->add_option("--filters", flags->filters, "Also draw the filters of one layer")->type_name("PNG");
  command
      ->add_option("--layer", flags->layer,
                   "Layer to draw, 1 is the one next to the image; default: the first learned one")
      ->check(AtLeast(1))
      ->type_name("K")
      ->needs(filters);
  command->add_option("--network", flags->network, "Network of the layer, in a model of several")
      ->check(AtLeast(1))
      ->capture_default_str()
      ->type_name("N")
      ->needs(filters);
  command->callback([flags, &exit_code] { exit_code = ExitCode("inspect", RunInspect(*flags)); });
}

}  // namespace ckn
