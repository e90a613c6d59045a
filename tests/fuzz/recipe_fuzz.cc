// Recipe files, up to the plan of the networks that they ask for.
#include "server/training/recipe.h"

#include <string>

#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/text_format.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/temp_dir.h"

namespace {

using ckn::testing::CheckErrorMessage;

void CheckPlans(const ckn::v1::Recipe& recipe, int height, int width, int channels) {
  const auto plans = ckn::ResolveRecipes(recipe, height, width, channels);
  if (!plans.ok()) return CheckErrorMessage(plans.status());
  CKN_FUZZ_CHECK(!plans->empty(), "");
  for (const ckn::NetworkPlan& plan : *plans) {
    CKN_FUZZ_CHECK(plan.shapes.size() == plan.layers.size() + 1, plan.shapes.size());
    for (const ckn::MapShape& shape : plan.shapes) {
      CKN_FUZZ_CHECK(shape.height >= 1 && shape.width >= 1 && shape.channels >= 1, plan.name);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  google::protobuf::SetLogHandler(nullptr);
  static const ckn::testing::TempDir& folder = *new ckn::testing::TempDir;
  const std::string path = folder.Write("fuzz.recipe", {reinterpret_cast<const char*>(data), size});
  const absl::StatusOr<ckn::v1::Recipe> recipe = ckn::ReadRecipeFile(path);
  if (!recipe.ok()) {
    CheckErrorMessage(recipe.status());
    return 0;
  }
  CheckPlans(*recipe, 28, 28, 1);
  CheckPlans(*recipe, 7, 96, 3);
  std::string text;
  CKN_FUZZ_CHECK(google::protobuf::TextFormat::PrintToString(*recipe, &text), "");
  return 0;
}
