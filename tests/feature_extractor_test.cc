#include "server/feature_extractor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/image/preprocess.h"
#include "server/pipeline.h"
#include "server/store/model.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

std::vector<float> Features(const InputSpec& input, const std::vector<Layer>& layers, const ImageU8& image) {
  FeatureExtractor extractor;
  EXPECT_TRUE(extractor.Add(input, layers).ok());
  std::vector<float> out(static_cast<std::size_t>(extractor.feature_count()));
  EXPECT_TRUE(extractor.Extract(image, out).ok());
  return out;
}

class FeatureExtractorTest : public ::testing::TestWithParam<int> {
 protected:
  const Model model_ = ::ckn::testing::TinyModel({.height = 9, .width = 12, .channels = GetParam()});
  const std::vector<Layer>& layers_ = model_.networks[0].layers;
  const ImageU8 image_ = ::ckn::testing::TinyImage(model_, 3);
  const ImageU8 mirrored_ = *MirrorLeftRight(image_);
};

TEST_P(FeatureExtractorTest, MirroredFeaturesAreTheMeanOfBothImages) {
  InputSpec input = model_.networks[0].input;
  const std::vector<float> straight = Features(input, layers_, image_);
  const std::vector<float> other = Features(input, layers_, mirrored_);
  std::vector<float> mean(straight.size());
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = 0.5F * (straight[i] + other[i]);
  EXPECT_NE(straight, other);

  input.mirror = true;
  EXPECT_EQ(Features(input, layers_, image_), mean);
  EXPECT_EQ(Features(input, layers_, mirrored_), mean) << "the order of the two makes no difference";
}

// Each network by its own setting.
TEST_P(FeatureExtractorTest, OnlyTheNetworksThatAskAreMirrored) {
  InputSpec input = model_.networks[0].input;
  const std::vector<float> straight = Features(input, layers_, image_);
  input.mirror = true;
  const std::vector<float> mean = Features(input, layers_, image_);

  FeatureExtractor both;
  ASSERT_TRUE(both.Add(input, layers_).ok());
  ASSERT_TRUE(both.Add(model_.networks[0].input, layers_).ok());
  std::vector<float> out(straight.size() + mean.size());
  ASSERT_TRUE(both.Extract(image_, out).ok());
  std::vector<float> expected = mean;
  expected.insert(expected.end(), straight.begin(), straight.end());
  EXPECT_EQ(out, expected);
}

// Networks that are encoded apart are joined by their residuals, which must give the same bits.
TEST_P(FeatureExtractorTest, TheResidualIsTheMeanOfTheNetworks) {
  FeatureExtractor all;
  std::vector<float> apart;
  for (int k = 0; k < 3; ++k) {
    const Model model = ::ckn::testing::TinyModel(
        {.height = 9, .width = 12, .channels = GetParam(), .seed = static_cast<std::uint64_t>(k) + 1});
    InputSpec input = model.networks[0].input;
    input.mirror = k == 1;
    ASSERT_TRUE(all.Add(input, model.networks[0].layers).ok());
    FeatureExtractor one;
    ASSERT_TRUE(one.Add(input, model.networks[0].layers).ok());
    std::vector<float> out(static_cast<std::size_t>(one.feature_count()));
    ASSERT_TRUE(one.Extract(image_, out, &apart.emplace_back()).ok());
  }
  EXPECT_NE(apart[0], apart[1]);
  std::vector<float> out(static_cast<std::size_t>(all.feature_count()));
  std::vector<float> residuals(static_cast<std::size_t>(all.network_count()));
  ASSERT_TRUE(all.Extract(image_, out, residuals).ok());
  EXPECT_EQ(residuals, apart);
  float mean = 0;
  ASSERT_TRUE(all.Extract(image_, out, &mean).ok());
  EXPECT_EQ(mean, (apart[0] + apart[1] + apart[2]) / 3);
  EXPECT_EQ(FeatureExtractor::MeanResidual(apart), mean);
}

INSTANTIATE_TEST_SUITE_P(GrayAndColour, FeatureExtractorTest, ::testing::Values(1, 3));

TEST(PipelineTest, FeaturesFromElsewhereGiveTheMarginsOfTheImage) {
  const Model model = ::ckn::testing::TinyModel();
  const ImageU8 image = ::ckn::testing::TinyImage(model, 3);
  const absl::StatusOr<Pipeline> pipeline = Pipeline::Create(model);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  std::vector<float> features(static_cast<std::size_t>(pipeline->feature_count()));
  ASSERT_TRUE(pipeline->extractor().Extract(image, features).ok());
  const absl::StatusOr<std::vector<float>> margins = pipeline->ScoreUnscaled(features);
  ASSERT_TRUE(margins.ok()) << margins.status();
  EXPECT_EQ(*margins, *pipeline->Classify(image));
  EXPECT_EQ(features, *pipeline->Encode(image));
}

TEST(MirrorLeftRightTest, ExchangesPixelsNotChannels) {
  const ImageU8 image{.height = 2,
                      .width = 3,
                      .channels = 3,
                      .pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9,  //
                                 11, 12, 13, 14, 15, 16, 17, 18, 19}};
  EXPECT_THAT(MirrorLeftRight(image)->pixels,
              ::testing::ElementsAre(7, 8, 9, 4, 5, 6, 1, 2, 3, 17, 18, 19, 14, 15, 16, 11, 12, 13));
  EXPECT_FALSE(MirrorLeftRight({.height = 2, .width = 3, .channels = 3, .pixels = {1}}).ok());
}

}  // namespace
}  // namespace ckn
