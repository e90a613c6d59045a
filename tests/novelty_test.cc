#include "server/novelty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/ckn/encoder.h"
#include "server/image/decode.h"
#include "server/image/preprocess.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NoveltyTest, FewResidualsAreKeptAsTheyAre) {
  EXPECT_THAT(ResidualQuantiles({0.3F, -0.1F, 0.2F}), ElementsAre(-0.1F, 0.2F, 0.3F));
}

TEST(NoveltyTest, ManyResidualsBecomeAThousandSteps) {
  std::vector<float> residuals(50'001);
  std::iota(residuals.begin(), residuals.end(), 0.0F);
  const std::vector<float> quantiles = ResidualQuantiles(residuals);
  ASSERT_EQ(quantiles.size(), 1001U);
  for (std::size_t i = 0; i < quantiles.size(); ++i) EXPECT_EQ(quantiles[i], 50.0F * static_cast<float>(i));
}

TEST(NoveltyTest, TheRankIsThePartThatIsSmaller) {
  const std::vector<float> quantiles = {1, 2, 2, 4, 5};
  const auto rank = [&](float residual) {
    const Novelty novelty = RankResidual(quantiles, residual);
    EXPECT_EQ(novelty.residual, residual);
    return novelty.rank;
  };
  EXPECT_EQ(rank(0.5F), 0);
  EXPECT_EQ(rank(1), 0);
  EXPECT_EQ(rank(1.5F), 0.125F);
  EXPECT_EQ(rank(2), 0.25F) << "of equal ones, none is smaller";
  EXPECT_EQ(rank(3), 0.625F);
  EXPECT_EQ(rank(5), 1);
  EXPECT_EQ(rank(1e9F), 1);
  EXPECT_EQ(RankResidual(std::vector<float>{1}, 1).rank, 0);
  EXPECT_EQ(RankResidual(std::vector<float>{1}, 1.5F).rank, 1);
}

class PipelineNoveltyTest : public ::testing::Test {
 protected:
  Model model_ = ::ckn::testing::TinyModel();
  const ImageU8 image_ = ::ckn::testing::TinyImage(model_, 3);
};

TEST_F(PipelineNoveltyTest, AModelWithoutQuantilesHasNone) {
  std::optional<Novelty> novelty = Novelty{};
  ASSERT_TRUE(Pipeline::Create(model_)->Classify(image_, &novelty).ok());
  EXPECT_FALSE(novelty.has_value());
}

TEST_F(PipelineNoveltyTest, RanksTheResidualOfTheEncoder) {
  const Network& network = model_.networks[0];
  const Encoder encoder = *Encoder::Create(network.layers, {8, 8, 1});
  std::vector<float> features(static_cast<std::size_t>(encoder.feature_count()));
  float residual = 0;
  encoder.Encode(*Preprocess(image_, network.input), features, &residual);

  model_.residual_quantiles = {residual - 1, residual + 1};
  const Pipeline pipeline = *Pipeline::Create(model_);
  std::optional<Novelty> of_classify, of_encode;
  const auto scores = pipeline.Classify(image_, &of_classify);
  EXPECT_EQ(*scores, *pipeline.Classify(image_));
  ASSERT_TRUE(pipeline.Encode(image_, &of_encode).ok());
  ASSERT_TRUE(of_classify && of_encode);
  EXPECT_EQ(of_classify->residual, residual);
  EXPECT_NEAR(of_classify->rank, 0.5F, 1e-5);
  EXPECT_EQ(of_encode->rank, of_classify->rank);
}

TEST_F(PipelineNoveltyTest, IsTheMeanOverNetworksAndMirrorImages) {
  model_.residual_quantiles = {0, 1};
  std::optional<Novelty> straight, mirrored, both;
  const ImageU8 mirror_image = *MirrorLeftRight(image_);
  const Pipeline one = *Pipeline::Create(model_);
  ASSERT_TRUE(one.Encode(image_, &straight).ok() && one.Encode(mirror_image, &mirrored).ok());

  model_.networks.push_back(model_.networks[0]);
  model_.networks[1].input.mirror = true;
  model_.svm.weights.conservativeResize(Eigen::NoChange, 2 * model_.svm.weights.cols());
  model_.svm.weights.rightCols(model_.svm.weights.cols() / 2).setZero();
  ASSERT_TRUE(Pipeline::Create(model_)->Encode(image_, &both).ok());
  EXPECT_NEAR(both->residual, 0.75F * straight->residual + 0.25F * mirrored->residual, 1e-6);
  EXPECT_NE(straight->residual, mirrored->residual);
}

// With the model that is shipped: ten digits, ten pieces of clothing.
TEST(NoveltyOfModelsTest, ClothesAreNewToAModelOfDigits) {
  const std::string root = CKN_SOURCE_DIR;
  const absl::StatusOr<LoadedModel> loaded = ReadModelFile(root + "/models/mnist.ckn");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Pipeline pipeline = *Pipeline::Create(loaded->model);
  const auto ranks = [&](const std::string& folder) {
    std::vector<float> all;
    for (const auto& entry : std::filesystem::directory_iterator(root + "/tests/data/" + folder)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      const absl::StatusOr<ImageU8> image = Decode(std::as_bytes(std::span(bytes)), DecodeLimits());
      EXPECT_TRUE(image.ok()) << image.status();
      std::optional<Novelty> novelty;
      EXPECT_TRUE(pipeline.Classify(*image, &novelty).ok());
      all.push_back(novelty.value_or(Novelty{}).rank);
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  const std::vector<float> digits = ranks("mnist"), clothes = ranks("fashion");
  ASSERT_EQ(digits.size(), 10U);
  ASSERT_EQ(clothes.size(), 10U);
  EXPECT_GT(digits.front(), 0);
  EXPECT_LT(digits[5], 0.8F);
  EXPECT_GT(clothes[5], 0.9F);
}

TEST_F(PipelineNoveltyTest, QuantilesDoNotGoWithAProjection) {
  model_.residual_quantiles = {0, 1};
  model_.networks[0].layers.back().projection = RowMatrixF::Identity(4, 4);
  EXPECT_THAT(std::string(Pipeline::Create(model_).status().message()), HasSubstr("residual_quantiles"));
}

}  // namespace
}  // namespace ckn
