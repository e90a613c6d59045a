#include "server/image/decoder_versions.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(DecoderVersionsTest, EachLibraryHasANameAndNumbers) {
  std::vector<std::string> names, texts;
  for (const DecoderVersion& decoder : DecoderVersions()) {
    names.push_back(decoder.library);
    texts.push_back(absl::StrCat(decoder.library, " ", decoder.version));
    EXPECT_THAT(decoder.version, ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+")) << decoder.library;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("libjpeg-turbo", "libpng", "libtiff", "libwebp"));
  EXPECT_EQ(DecoderVersionsText(), absl::StrJoin(texts, ", "));
}

}  // namespace
}  // namespace ckn
