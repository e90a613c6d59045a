// Writes a model of a built-in architecture with random filters, which cost what learned ones do:
// write_random_model ARCHITECTURE FILE
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/store/model_file.h"
#include "server/training/recipe.h"

namespace ckn {
namespace {

constexpr int kClasses = 10;

absl::StatusOr<Model> RandomModel(const std::string& architecture) {
  CKN_ASSIGN_OR_RETURN(const v1::Recipe recipe, BuiltInRecipe(architecture));
  const bool mnist = !absl::EndsWith(architecture, "cifar10") && !absl::EndsWith(architecture, "stl10");
  const int side = mnist ? 28 : absl::EndsWith(architecture, "stl10") ? 96 : 32;
  CKN_ASSIGN_OR_RETURN(const std::vector<NetworkPlan> plans, ResolveRecipes(recipe, side, side, mnist ? 1 : 3));
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  Model model;
  model.name = architecture;
  Eigen::Index features = 0;
  for (const NetworkPlan& plan : plans) {
    Network network;
    network.architecture = plan.name;
    network.input = plan.input;
    for (const LayerPlan& layer_plan : plan.layers) {
      Layer layer = layer_plan.layer;
      layer.sigma = 0.7F;
      layer.filters.resize(layer_plan.filters, layer.patch_dim());
      const float scale = 1 / std::sqrt(static_cast<float>(layer.patch_dim()));
      for (float& value : layer.filters.reshaped()) value = scale * normal(rng);
      layer.eta.setOnes(layer_plan.filters);
      network.layers.push_back(std::move(layer));
      network.learning.emplace_back();
    }
    const MapShape& last = plan.shapes.back();
    network.standardization.mean.setZero(Eigen::Index{last.height} * last.width * last.channels);
    features += network.standardization.mean.size();
    model.networks.push_back(std::move(network));
  }
  model.svm.weights.resize(kClasses, features);
  for (float& value : model.svm.weights.reshaped()) value = normal(rng);
  model.svm.bias.setZero(kClasses);
  for (int i = 0; i < kClasses; ++i) model.class_names.push_back(absl::StrCat("class ", i));
  return model;
}

absl::Status Write(const std::string& architecture, const std::string& path) {
  CKN_ASSIGN_OR_RETURN(const Model model, RandomModel(architecture));
  return WriteModelFile(model, path);
}

}  // namespace
}  // namespace ckn

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: write_random_model ARCHITECTURE FILE\n");
    return 2;
  }
  const absl::Status status = ckn::Write(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "write_random_model: %s\n", std::string(status.message()).c_str());
  return 1;
}
