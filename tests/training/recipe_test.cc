#include "server/training/recipe.h"

#include <cstdio>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Table3Row {
  const char* name;
  int size, channels;            // of the images
  std::vector<MapShape> shapes;  // xi_1 ... xi_N
  std::vector<int> subsampling;
  int features;
  std::int64_t parameters;
};

class Table3Test : public testing::TestWithParam<Table3Row> {};

// Sizes, subsampling factors and "# param" of the paper's table 3.
TEST_P(Table3Test, SizesAndParameterCountAreAsPrinted) {
  const Table3Row& row = GetParam();
  const absl::StatusOr<v1::Recipe> recipe = BuiltInRecipe(row.name);
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  const absl::StatusOr<NetworkPlan> plan = ResolveRecipe(*recipe, row.size, row.size, row.channels);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(std::vector<MapShape>(plan->shapes.begin() + 1, plan->shapes.end()),
              testing::ElementsAreArray(row.shapes));
  std::vector<Layer> layers;
  std::vector<int> subsampling;
  for (const LayerPlan& layer : plan->layers) {
    layers.push_back(layer.layer);
    layers.back().filters.resize(layer.filters, layer.layer.patch_dim());
    subsampling.push_back(layer.layer.subsampling);
  }
  EXPECT_EQ(subsampling, row.subsampling);
  EXPECT_EQ(ParameterCount(layers), row.parameters);
  const MapShape& last = plan->shapes.back();
  EXPECT_EQ(last.height * last.width * last.channels, row.features);
}

INSTANTIATE_TEST_SUITE_P(
    AllArchitectures, Table3Test,
    testing::Values(Table3Row{"ckn-gm1", 28, 1, {{14, 14, 12}, {4, 4, 50}}, {2, 3}, 800, 5'400},
                    Table3Row{"ckn-gm2", 28, 1, {{14, 14, 12}, {3, 3, 400}}, {2, 4}, 3'600, 43'200},
                    Table3Row{"ckn-pm1", 28, 1, {{4, 4, 200}}, {6}, 3'200, 5'000},
                    Table3Row{"ckn-pm2", 28, 1, {{12, 12, 50}, {6, 6, 200}}, {2, 2}, 7'200, 41'250},
                    Table3Row{"ckn-gm-cifar10", 32, 3, {{16, 16, 12}, {4, 4, 800}}, {2, 4}, 12'800, 38'400},
                    Table3Row{"ckn-pm-cifar10", 32, 3, {{16, 16, 100}, {4, 4, 800}}, {2, 4}, 12'800, 321'200},
                    Table3Row{"ckn-gm-stl10", 96, 3, {{48, 48, 12}, {4, 4, 800}}, {2, 12}, 12'800, 86'400},
                    Table3Row{"ckn-pm-stl10", 96, 3, {{47, 47, 50}, {3, 3, 800}}, {2, 15}, 7'200, 361'350}),
    [](const testing::TestParamInfo<Table3Row>& row) {
      std::string name = row.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(BuiltInRecipeTest, AllNamesAreInTable3TestOrCombinations) { EXPECT_EQ(BuiltInRecipeNames().size(), 8 + 4); }

TEST(BuiltInRecipeTest, CombinationsAreTable2s) {
  const absl::StatusOr<std::vector<NetworkPlan>> co = ResolveRecipes(*BuiltInRecipe("ckn-co-cifar10"), 32, 32, 3);
  ASSERT_TRUE(co.ok()) << co.status();
  ASSERT_EQ(co->size(), 2U);
  EXPECT_EQ(co->at(0).name, "ckn-gm-cifar10");
  EXPECT_EQ(co->at(0).shapes, ResolveRecipe(*BuiltInRecipe("ckn-gm-cifar10"), 32, 32, 3)->shapes);
  EXPECT_EQ(co->at(1).shapes, ResolveRecipe(*BuiltInRecipe("ckn-pm-cifar10"), 32, 32, 3)->shapes);
  const absl::StatusOr<std::vector<NetworkPlan>> stl = ResolveRecipes(*BuiltInRecipe("ckn-co-stl10"), 96, 96, 3);
  ASSERT_TRUE(stl.ok()) << stl.status();
  EXPECT_EQ(stl->size(), 2U);
  const absl::StatusOr<std::vector<NetworkPlan>> mnist = ResolveRecipes(*BuiltInRecipe("ckn-co-mnist"), 28, 28, 1);
  ASSERT_TRUE(mnist.ok()) << mnist.status();
  ASSERT_EQ(mnist->size(), 2U);
  EXPECT_EQ(mnist->at(0).name, "ckn-gm2");
  EXPECT_EQ(mnist->at(1).name, "ckn-pm1");
  const absl::StatusOr<std::vector<NetworkPlan>> wide = ResolveRecipes(*BuiltInRecipe("ckn-wide-cifar10"), 32, 32, 3);
  ASSERT_TRUE(wide.ok()) << wide.status();
  ASSERT_EQ(wide->size(), 2U);
  for (const NetworkPlan& plan : *wide) {
    EXPECT_TRUE(plan.input.mirror);
    EXPECT_EQ(plan.shapes.back(), (MapShape{4, 4, 1024})) << plan.name;
  }
  const absl::StatusOr<std::vector<NetworkPlan>> one = ResolveRecipes(*BuiltInRecipe("ckn-gm1"), 28, 28, 1);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->size(), 1U);
}

// Sigma and the support of the pooling filter, where the algorithm's defaults are not the best by validation.
TEST(BuiltInRecipeTest, MnistArchitecturesHaveTheirOwnSigmaOrSupport) {
  const auto last = [](const char* name) { return ResolveRecipe(*BuiltInRecipe(name), 28, 28, 1)->layers.back(); };
  EXPECT_EQ(last("ckn-gm1").sigma_quantile, 0.1);
  EXPECT_EQ(last("ckn-gm1").layer.pooling_radius, 2 * last("ckn-gm1").layer.subsampling);
  EXPECT_EQ(last("ckn-gm2").sigma_quantile, 0.01);
  EXPECT_EQ(last("ckn-gm2").layer.pooling_radius, last("ckn-gm2").layer.subsampling);
  EXPECT_EQ(last("ckn-pm1").sigma_quantile, 0.02);
  EXPECT_EQ(last("ckn-pm2").sigma_quantile, 0.02);
}

TEST(BuiltInRecipeTest, Cifar10ArchitecturesHaveTheirOwnSigmaOrSupport) {
  const auto last = [](const char* name) { return ResolveRecipe(*BuiltInRecipe(name), 32, 32, 3)->layers.back(); };
  EXPECT_EQ(last("ckn-gm-cifar10").sigma_quantile, 0.01);
  EXPECT_EQ(last("ckn-gm-cifar10").layer.pooling_radius, 2 * last("ckn-gm-cifar10").layer.subsampling);
  EXPECT_EQ(last("ckn-pm-cifar10").sigma_quantile, 0.003);
  EXPECT_EQ(last("ckn-pm-cifar10").layer.pooling_radius, last("ckn-pm-cifar10").layer.subsampling);
}

TEST(BuiltInRecipeTest, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(std::string(BuiltInRecipe("ckn-gm3").status().message()),
              AllOf(HasSubstr("ckn-gm3"), HasSubstr("ckn-pm2")));
}

class RecipeFileTest : public testing::Test {
 protected:
  absl::StatusOr<v1::Recipe> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadRecipeFile(path_);
  }
  // The message of resolving the recipe for 28x28 gray images.
  std::string Refusal(const std::string& text) {
    const absl::StatusOr<v1::Recipe> recipe = Read(text);
    EXPECT_TRUE(recipe.ok()) << recipe.status();
    return std::string(ResolveRecipe(*recipe, 28, 28, 1).status().message());
  }
  void TearDown() override { std::remove(path_.c_str()); }

  const std::string path_ =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".recipe";
};

TEST_F(RecipeFileTest, MirrorIsOffUnlessAskedFor) {
  const std::string layer = "layers { patch_size: 3 filters: 4 subsampling: 2 }";
  EXPECT_FALSE(ResolveRecipe(*Read(layer), 28, 28, 1)->input.mirror);
  EXPECT_TRUE(ResolveRecipe(*Read("input { mirror: true } " + layer), 28, 28, 1)->input.mirror);
}

TEST_F(RecipeFileTest, ReadsAnyNumberOfLayers) {
  const absl::StatusOr<v1::Recipe> recipe = Read(R"(
    name: "three"
    layers { patch_size: 3 filters: 8 subsampling: 2 }   # a comment
    layers { patch_size: 2 filters: 16 subsampling: 2 sigma: 0.5 }
    layers { patch_size: 2 filters: 32 output_size: 2 pooling_support: 2 })");
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  const absl::StatusOr<NetworkPlan> plan = ResolveRecipe(*recipe, 28, 28, 3);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->layers.size(), 3);
  EXPECT_EQ(plan->shapes.back(), (MapShape{2, 2, 32}));
  EXPECT_TRUE(plan->layers[0].layer.subtract_patch_mean);  // colour
  EXPECT_FALSE(plan->layers[1].layer.subtract_patch_mean);
  EXPECT_EQ(plan->layers[1].sigma, 0.5);
  EXPECT_EQ(plan->layers[2].layer.subsampling, 3);
  EXPECT_EQ(plan->layers[2].layer.pooling_radius, 6);
}

TEST_F(RecipeFileTest, SyntaxErrorsCarryTheirPlace) {
  EXPECT_THAT(std::string(Read("name: \"x\"\nlayers { patch: 3 }").status().message()),
              AllOf(HasSubstr(path_), HasSubstr("line 2, column"), HasSubstr("patch")));
  EXPECT_FALSE(Read("layers {").ok());
  // What is quoted of the file is fit for a terminal.
  EXPECT_THAT(std::string(Read("height: \x1b[31m").status().message()),
              AllOf(HasSubstr("line 1"), Not(HasSubstr("\x1b"))));
  EXPECT_LT(Read(std::string(100'000, 'x') + ": 1").status().message().size(), 1000U);
  const auto part = Read("parts { name: 'a\\nb' } parts { name: 'ckn-gm1' }");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_THAT(std::string(ResolveRecipes(*part, 28, 28, 1).status().message()), HasSubstr(R"("a\x0ab")"));
  EXPECT_EQ(ReadRecipeFile(path_ + ".missing").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RecipeFileTest, RefusalsNameLayerAndField) {
  EXPECT_THAT(Refusal(""), HasSubstr("layers: got 0, expected 1 to 64"));
  EXPECT_THAT(Refusal("layers { filters: 3 subsampling: 1 }"), HasSubstr("layer 1: patch_size: got 0"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 subsampling: 1 }"), HasSubstr("layer 1: filters: got 0"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 filters: 2 }"), HasSubstr("exactly one of them"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 filters: 2 subsampling: 2 output_size: 2 }"),
              HasSubstr("exactly one of them"));
  EXPECT_THAT(Refusal("layers { patch_size: 29 filters: 2 subsampling: 2 }"),
              HasSubstr("patch_size: got 29, expected at most the map below, 28x28"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 filters: 2 output_size: 27 }"),
              HasSubstr("output_size: got 27, expected at most 26"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 filters: 2 subsampling: 2 sigma: -1 }"), HasSubstr("sigma: got -1"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 filters: 2 subsampling: 2 sigma_quantile: 1 }"),
              HasSubstr("sigma_quantile: got 1"));
  EXPECT_THAT(Refusal("input { map: INPUT_MAP_GRADIENT } layers { patch_size: 3 filters: 12 subsampling: 2 }"),
              HasSubstr("patch_size: got 3, expected 1"));
  EXPECT_THAT(Refusal("input { height: 32 width: 32 } layers { patch_size: 3 filters: 2 subsampling: 2 }"),
              HasSubstr("the recipe takes 32x32 images, the data have 28x28"));
  EXPECT_THAT(Refusal("input { height: 100000 width: 100000 } layers { patch_size: 3 filters: 2 subsampling: 2 }"),
              HasSubstr("input: got 100000x100000"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 filters: 8 subsampling: 2147483647 }"),
              HasSubstr("layer 1: subsampling"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 filters: 8 subsampling: 2 sigma: inf }"), HasSubstr("sigma: got inf"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 filters: 8 subsampling: 2 pooling_support: 1000000 }"),
              HasSubstr("pooling_support: got 1e+06"));
  EXPECT_THAT(Refusal("input { channels: 2 } layers { patch_size: 3 filters: 2 subsampling: 2 }"),
              HasSubstr("channels: got 2"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 filters: 2 subsampling: 2 } layers { patch_size: 2 filters: 2 "
                      "subsampling: 2 subtract_patch_mean: true }"),
              HasSubstr("layer 2: subtract_patch_mean"));
}

TEST_F(RecipeFileTest, OnlyPatchesOfPixelsAreWhitened) {
  const std::string pooling = " filters: 4 subsampling: 2 ";
  const absl::StatusOr<v1::Recipe> recipe = Read("layers { patch_size: 3 whiten: true" + pooling + "}");
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  const absl::StatusOr<NetworkPlan> plan = ResolveRecipe(*recipe, 28, 28, 3);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->layers[0].whiten);
  EXPECT_EQ(plan->layers[0].whitening_floor, 0.001);
  EXPECT_THAT(Refusal("layers { patch_size: 3" + pooling + "} layers { patch_size: 2 whiten: true" + pooling + "}"),
              HasSubstr("layer 2: whiten: only the first layer of a pixel map"));
  EXPECT_THAT(Refusal("input { map: INPUT_MAP_GRADIENT } layers { patch_size: 1 whiten: true" + pooling + "}"),
              HasSubstr("layer 1: whiten: only"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 whiten: true whitening_floor: 2" + pooling + "}"),
              HasSubstr("layer 1: whitening_floor: got 2"));
}

TEST_F(RecipeFileTest, SaysWhereFiltersAreLookedFor) {
  const std::string pooling = " filters: 4 subsampling: 2 ";
  const absl::StatusOr<v1::Recipe> recipe =
      Read("layers { patch_size: 3 principal_components: 27 pairs_factor: 4" + pooling + "}");
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  const absl::StatusOr<NetworkPlan> plan = ResolveRecipe(*recipe, 28, 28, 3);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->layers[0].principal_components, 27);
  EXPECT_EQ(plan->layers[0].pairs_factor, 4);
  EXPECT_THAT(Refusal("layers { patch_size: 3 principal_components: 10" + pooling + "}"),
              HasSubstr("layer 1: principal_components: got 10, expected 0 (all) to 9, the values of a patch"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 principal_components: -1" + pooling + "}"),
              HasSubstr("principal_components: got -1"));
  EXPECT_THAT(Refusal("layers { patch_size: 5 filters: 200 subsampling: 1 } layers { patch_size: 5 "
                      "principal_components: 8" +
                      pooling + "}"),
              HasSubstr("layer 2: principal_components: a patch has 5000 values, expected at most 4096"));
  EXPECT_THAT(Refusal("layers { patch_size: 2147483647 principal_components: 1" + pooling + "}"),
              HasSubstr("patch_size: got 2147483647"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 pairs_factor: 101" + pooling + "}"),
              HasSubstr("pairs_factor: got 101, expected 0 (the default) to 100"));
  EXPECT_THAT(Refusal("layers { patch_size: 3 pairs_factor: -1" + pooling + "}"), HasSubstr("pairs_factor: got -1"));
}

TEST_F(RecipeFileTest, PartsMayBeBuiltInOrWrittenOut) {
  const auto plans = [this](const std::string& text) -> absl::StatusOr<std::vector<NetworkPlan>> {
    const absl::StatusOr<v1::Recipe> recipe = Read(text);
    if (!recipe.ok()) return recipe.status();
    return ResolveRecipes(*recipe, 28, 28, 1);
  };
  const std::string own = "parts { name: 'own' layers { patch_size: 3 filters: 4 subsampling: 2 } } ";
  const absl::StatusOr<std::vector<NetworkPlan>> two = plans(own + "parts { name: 'ckn-gm1' }");
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->at(0).layers.size(), 1U);
  EXPECT_EQ(two->at(1).layers.size(), 2U);
  // A built-in part takes its size as any recipe does.
  const std::string stretched = "input { height: 20 width: 20 resize: RESIZE_POLICY_STRETCH } ";
  const absl::StatusOr<std::vector<NetworkPlan>> smaller =
      plans("parts { name: 'ckn-gm1' " + stretched + "} parts { name: 'ckn-pm1' " + stretched + "}");
  ASSERT_TRUE(smaller.ok()) << smaller.status();
  EXPECT_EQ(smaller->at(0).input.height, 20);
  EXPECT_EQ(smaller->at(0).input.map, InputMap::kGradient);

  const auto error = [&](const std::string& text) { return std::string(plans(text).status().message()); };
  EXPECT_THAT(error(own), HasSubstr("parts: got 1, expected 2"));
  EXPECT_THAT(error(own + "parts { name: 'no-such' }"), HasSubstr("part 2: architecture \"no-such\": unknown"));
  EXPECT_THAT(error(own + own + "layers { patch_size: 3 }"), HasSubstr("got parts beside input or layers"));
  EXPECT_THAT(error(own + "parts { parts { name: 'ckn-gm1' } }"), HasSubstr("part 2: parts: expected none in a part"));
  EXPECT_THAT(error(own + "parts { name: 'x' layers { patch_size: 0 } }"), HasSubstr("part 2: layer 1: patch_size"));
  EXPECT_THAT(error(own + "parts { name: 'ckn-gm1' " + stretched + "}"),
              HasSubstr("part 2: input: got images of 20x20, expected 28x28"));
}

}  // namespace
}  // namespace ckn
