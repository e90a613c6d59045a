// From pixels to features without asking for memory, for every kind of input.
#include <vector>

#include "gtest/gtest.h"
#include "server/feature_extractor.h"
#include "tests/testing/count_allocations.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

TEST(AllocationTest, ExtractingAsksForNoMemoryOnceTheThreadHasSeenAnImage) {
  for (const int channels : {1, 3}) {
    for (const InputMap map : {InputMap::kPixels, InputMap::kGradient}) {
      for (const bool mirror : {false, true}) {
        InputSpec input{.height = 9, .width = 12, .channels = channels, .map = map, .mirror = mirror};
        const Model model =
            ::ckn::testing::TinyModel({.height = input.height, .width = input.width, .channels = input.MapChannels()});
        FeatureExtractor extractor;
        ASSERT_TRUE(extractor.Add(input, model.networks[0].layers).ok());
        ImageU8 image{input.height, input.width, channels, {}};
        for (int i = 0; i < input.height * input.width * channels; ++i) {
          image.pixels.push_back(static_cast<std::uint8_t>(7 * i));
        }
        std::vector<float> features(static_cast<std::size_t>(extractor.feature_count()));
        ASSERT_TRUE(extractor.Extract(image, features).ok());
        const int before = ::ckn::testing::Allocations();
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(extractor.Extract(image, features).ok());
        EXPECT_EQ(::ckn::testing::Allocations(), before) << channels << " channels, mirror " << mirror;
      }
    }
  }
}

}  // namespace
}  // namespace ckn
