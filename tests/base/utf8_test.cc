#include "server/base/utf8.h"

#include <cstddef>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(Utf8Test, AcceptsPrintableText) {
  for (const char* text : {"", "cat", "T-shirt/top", "Grüße", "猫", "🐈", "a b", "\xEF\xBF\xBD", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsPrintableUtf8(text)) << text;
  }
}

TEST(Utf8Test, RejectsControlCharacters) {
  for (const std::string& text :
       {std::string("\0", 1), std::string("a\n"), std::string("\t"), std::string("\x1b[31m"), std::string("\x7f"),
        std::string("\xC2\x80"), std::string("\xC2\x9F"), std::string("\xE2\x80\xA8"), std::string("\xE2\x80\xA9")}) {
    EXPECT_FALSE(IsPrintableUtf8(text)) << text;
  }
}

TEST(Utf8Test, RejectsMalformedSequences) {
  for (const std::string& text :
       {std::string("\x80"), std::string("\xFF"), std::string("\xC3"), std::string("\xC3("),    // stray, cut off
        std::string("\xE7\x8C"), std::string("\xF0\x9F\x90"), std::string("ok\xE7\x8C"),        // cut off
        std::string("\xC0\xAF"), std::string("\xE0\x80\xAF"), std::string("\xF0\x80\x80\xAF"),  // overlong
        std::string("\xED\xA0\x80"), std::string("\xED\xBF\xBF"),                               // surrogates
        std::string("\xF4\x90\x80\x80"), std::string("\xF5\x80\x80\x80")}) {                    // above U+10FFFF
    EXPECT_FALSE(IsPrintableUtf8(text)) << text;
  }
}

TEST(Utf8Test, APrefixEndsBetweenCharacters) {
  EXPECT_EQ(Utf8Prefix("cat", 3), "cat");
  EXPECT_EQ(Utf8Prefix("cats", 3), "cat");
  EXPECT_EQ(Utf8Prefix("", 0), "");
  const std::string text = "aé猫🐈";  // 1, 2, 3 and 4 bytes
  const std::size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (std::size_t max = 0; max < std::size(ends); ++max) EXPECT_EQ(Utf8Prefix(text, max), text.substr(0, ends[max]));
  // What is no UTF-8 is not made any shorter than needed.
  EXPECT_EQ(Utf8Prefix(std::string(10, '\x80'), 8).size(), 5U);
}

}  // namespace
}  // namespace ckn
