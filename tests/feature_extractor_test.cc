#include "server/feature_extractor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/image/preprocess.h"
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

INSTANTIATE_TEST_SUITE_P(GrayAndColour, FeatureExtractorTest, ::testing::Values(1, 3));

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
