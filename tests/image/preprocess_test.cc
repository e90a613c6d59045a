#include "server/image/preprocess.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;

ImageU8 Image(int height, int width, int channels, std::vector<std::uint8_t> pixels) {
  return {.height = height, .width = width, .channels = channels, .pixels = std::move(pixels)};
}

std::vector<float> Values(const ImageU8& image, const InputSpec& spec) {
  const absl::StatusOr<FeatureMap> map = Preprocess(image, spec);
  if (!map.ok()) {
    ADD_FAILURE() << map.status();
    return {};
  }
  EXPECT_EQ(map->height, spec.height);
  EXPECT_EQ(map->width, spec.width);
  EXPECT_EQ(map->channels, spec.MapChannels());
  return map->values;
}

TEST(PreprocessTest, PixelMapIsTheValueOver255) {
  const ImageU8 image = Image(1, 4, 1, {0, 1, 128, 255});
  EXPECT_THAT(Values(image, {.height = 1, .width = 4, .channels = 1}),
              ElementsAre(0.0F, 1.0F / 255, 128.0F / 255, 1.0F));
}

TEST(PreprocessTest, GrayIsRepeatedForAColourModel) {
  const ImageU8 image = Image(1, 2, 1, {51, 255});
  EXPECT_THAT(Values(image, {.height = 1, .width = 2, .channels = 3}), ElementsAre(0.2F, 0.2F, 0.2F, 1, 1, 1));
}

TEST(PreprocessTest, ColourKeepsItsOrder) {
  const ImageU8 image = Image(1, 1, 3, {255, 51, 0});
  EXPECT_THAT(Values(image, {.height = 1, .width = 1, .channels = 3}), ElementsAre(1, 0.2F, 0));
}

TEST(PreprocessTest, ColourBecomesLumaForAGrayModel) {
  const ImageU8 image = Image(1, 4, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30});
  EXPECT_THAT(Values(image, {.height = 1, .width = 4, .channels = 1}),
              ElementsAre(FloatEq(0.299F), FloatEq(0.587F), FloatEq(0.114F),
                          FloatEq((0.299F * 10 + 0.587F * 20 + 0.114F * 30) / 255)));
}

TEST(PreprocessTest, GrayStoredAsColourGivesTheSameMapToTheLastBit) {
  std::vector<std::uint8_t> gray;
  std::vector<std::uint8_t> colour;
  for (int v = 0; v < 256; ++v) {
    gray.push_back(static_cast<std::uint8_t>(v));
    colour.insert(colour.end(), 3, static_cast<std::uint8_t>(v));
  }
  for (const InputMap map : {InputMap::kPixels, InputMap::kGradient}) {
    const InputSpec spec = {.height = 16, .width = 16, .channels = 1, .map = map};
    EXPECT_EQ(Values(Image(16, 16, 1, gray), spec), Values(Image(16, 16, 3, colour), spec));
  }
}

TEST(PreprocessTest, GradientByHand) {
  // f = 0 10 40 / 20 50 100 / 60 110 255, over 255.
  const ImageU8 image = Image(3, 3, 1, {0, 10, 40, 20, 50, 100, 60, 110, 255});
  const std::vector<float> expected = {10,
                                       20,
                                       (40 - 0) / 2.0F,
                                       50 - 10,
                                       40 - 10,
                                       100 - 40,  // first row
                                       50 - 20,
                                       (60 - 0) / 2.0F,
                                       (100 - 20) / 2.0F,
                                       (110 - 10) / 2.0F,
                                       100 - 50,
                                       (255 - 40) / 2.0F,  // second
                                       110 - 60,
                                       60 - 20,
                                       (255 - 60) / 2.0F,
                                       110 - 50,
                                       255 - 110,
                                       255 - 100};  // third
  const std::vector<float> got = Values(image, {.height = 3, .width = 3, .channels = 1, .map = InputMap::kGradient});
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i] / 255, 1e-6) << i;
}

TEST(PreprocessTest, GradientAcrossOnePixelIsZero) {
  const InputSpec row = {.height = 1, .width = 3, .channels = 1, .map = InputMap::kGradient};
  EXPECT_THAT(Values(Image(1, 3, 1, {0, 51, 255}), row),
              ElementsAre(FloatNear(0.2F, 1e-6F), 0, FloatNear(0.5F, 1e-6F), 0, FloatNear(0.8F, 1e-6F), 0));
  const InputSpec column = {.height = 3, .width = 1, .channels = 1, .map = InputMap::kGradient};
  EXPECT_THAT(Values(Image(3, 1, 1, {0, 51, 255}), column),
              ElementsAre(0, FloatNear(0.2F, 1e-6F), 0, FloatNear(0.5F, 1e-6F), 0, FloatNear(0.8F, 1e-6F)));
  const InputSpec dot = {.height = 1, .width = 1, .channels = 1, .map = InputMap::kGradient};
  EXPECT_THAT(Values(Image(1, 1, 1, {200}), dot), ElementsAre(0, 0));
}

TEST(PreprocessTest, GradientOfAColourModelIsThatOfTheLuma) {
  const ImageU8 image = Image(1, 2, 3, {0, 0, 0, 255, 0, 0});
  EXPECT_THAT(Values(image, {.height = 1, .width = 2, .channels = 3, .map = InputMap::kGradient}),
              ElementsAre(FloatEq(0.299F), 0, FloatEq(0.299F), 0));
}

TEST(PreprocessTest, AnotherSizeIsRejectedNamingBoth) {
  const absl::StatusOr<FeatureMap> map =
      Preprocess(Image(2, 3, 1, std::vector<std::uint8_t>(6)), {.height = 28, .width = 27, .channels = 1});
  EXPECT_EQ(map.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(map.status().message(), "image of 2 x 3 pixels (height x width), expected 28 x 27");
}

TEST(PreprocessTest, ShrinkingAveragesTheArea) {
  const ImageU8 image = Image(2, 4, 1, {0, 100, 10, 10, 100, 200, 10, 30});
  const InputSpec spec = {.height = 1, .width = 2, .channels = 1, .resize = ResizePolicy::kStretch};
  EXPECT_THAT(Values(image, spec), ElementsAre(100.0F / 255, 15.0F / 255));
  // A checkerboard must become its mean, not whatever sampling hits.
  std::vector<std::uint8_t> checkers;
  checkers.reserve(36 * 36);
  for (int i = 0; i < 36 * 36; ++i) checkers.push_back((i / 36 + i % 36) % 2 == 0 ? 0 : 200);
  for (const float value : Values(Image(36, 36, 1, checkers),
                                  {.height = 9, .width = 12, .channels = 1, .resize = ResizePolicy::kStretch})) {
    EXPECT_NEAR(value, 100.0F / 255, 0.03);
  }
}

TEST(PreprocessTest, EnlargingInterpolates) {
  const ImageU8 image = Image(1, 2, 3, {0, 50, 100, 200, 50, 0});
  const std::vector<float> values =
      Values(image, {.height = 2, .width = 4, .channels = 3, .resize = ResizePolicy::kStretch});
  // Pixel centres at -0.25, 0.25, 0.75, 1.25 of the source.
  const std::vector<float> row = {0, 50, 100, 50, 50, 75, 150, 50, 25, 200, 50, 0};
  ASSERT_EQ(values.size(), 24U);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], row[i % 12] / 255, 0.6 / 255) << i;
}

TEST(PreprocessTest, TheRightSizeIsLeftAloneByEveryPolicy) {
  std::vector<std::uint8_t> pixels;
  pixels.reserve(25);
  for (int i = 0; i < 25; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 10));
  const ImageU8 image = Image(5, 5, 1, pixels);
  InputSpec spec = {.height = 5, .width = 5, .channels = 1};
  const std::vector<float> rejecting = Values(image, spec);
  spec.resize = ResizePolicy::kStretch;
  EXPECT_EQ(Values(image, spec), rejecting);
}

TEST(PreprocessTest, MalformedImagesAreRejected) {
  const InputSpec spec = {.height = 2, .width = 2, .channels = 1};
  EXPECT_THAT(std::string(Preprocess(Image(2, 2, 1, {1, 2, 3}), spec).status().message()),
              HasSubstr("got 3 bytes of pixels, expected 4"));
  EXPECT_EQ(Preprocess(Image(2, 2, 4, std::vector<std::uint8_t>(16)), spec).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Preprocess(Image(0, 2, 1, {}), spec).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ckn
