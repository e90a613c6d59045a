#include "server/base/quote.h"

#include <string>

#include "gtest/gtest.h"

namespace ckn {
namespace {

TEST(PrintableTest, KeepsPrintableUtf8) {
  EXPECT_EQ(Printable("plain \"text\" \\ 7"), "plain \"text\" \\ 7");
  EXPECT_EQ(Printable("caf\u00e9"), "caf\u00e9");
}

TEST(PrintableTest, EscapesWhatATerminalOrALogWouldActOn) {
  EXPECT_EQ(Printable("a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
  EXPECT_EQ(Printable(std::string("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(Printable("\xff\xfe"), "\\xff\\xfe");
}

TEST(OneLineTest, JoinsLinesByABlank) {
  EXPECT_EQ(OneLine("Tag NumberOfInks:\n  Value 4 is\tdifferent"), "Tag NumberOfInks: Value 4 is different");
  EXPECT_EQ(OneLine("\n one  two \r\n\n"), "one  two");
  EXPECT_EQ(OneLine("gr\xc3\xbcn\nblau"), "gr\xc3\xbcn blau");
  EXPECT_EQ(OneLine("a\n\x1b[31m\xff"), "a \\x1b[31m\\xff");
  EXPECT_EQ(OneLine(""), "");
}

TEST(QuoteTest, CutsLongText) {
  EXPECT_EQ(Quote("mnist"), "\"mnist\"");
  EXPECT_EQ(Quote(std::string(64, 'x')), "\"" + std::string(64, 'x') + "\"");
  EXPECT_EQ(Quote(std::string(65, 'x')), "\"" + std::string(64, 'x') + "...\"");
  EXPECT_EQ(Quote(std::string(63, 'x') + "é"), "\"" + std::string(63, 'x') + "...\"") << "between characters";
}

}  // namespace
}  // namespace ckn
