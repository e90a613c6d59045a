#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ckn/v1/model.pb.h"
#include "server/ckn/layer.h"
#include "server/image/preprocess.h"
#include "server/training/layer_plan.h"

namespace ckn {

// The architectures of the paper's table 3: ckn-gm1, ckn-gm2, ckn-pm1, ckn-pm2 (MNIST), ckn-gm-cifar10,
// ckn-pm-cifar10, ckn-gm-stl10, ckn-pm-stl10; and the combinations of table 2: ckn-co-cifar10, ckn-co-stl10. Not in the
// paper: ckn-co-mnist, of ckn-gm2 and ckn-pm1, and ckn-wide-cifar10, a combination of larger networks.
std::vector<std::string> BuiltInRecipeNames();
// NOT_FOUND lists the known names.
absl::StatusOr<v1::Recipe> BuiltInRecipe(const std::string& name);

// Reads a ckn.v1.Recipe in Protobuf text format. Errors carry file, line and column.
absl::StatusOr<v1::Recipe> ReadRecipeFile(const std::string& path);

// A recipe fitted to images of one size.
struct NetworkPlan {
  std::string name;
  InputSpec input;
  std::vector<LayerPlan> layers;
  std::vector<MapShape> shapes;  // xi_0 ... xi_N
};

// Fills what the recipe leaves open from the data's image size and checks that every layer fits the one below.
// INVALID_ARGUMENT names the layer, the field, what was got and what was expected.
absl::StatusOr<NetworkPlan> ResolveRecipe(const v1::Recipe& recipe, int height, int width, int channels);

// The plans of all networks of a recipe: its parts, or itself when it has none. Errors name the part.
absl::StatusOr<std::vector<NetworkPlan>> ResolveRecipes(const v1::Recipe& recipe, int height, int width, int channels);

}  // namespace ckn
