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

TEST(QuoteTest, CutsLongText) {
  EXPECT_EQ(Quote("mnist"), "\"mnist\"");
  EXPECT_EQ(Quote(std::string(64, 'x')), "\"" + std::string(64, 'x') + "\"");
  EXPECT_EQ(Quote(std::string(65, 'x')), "\"" + std::string(64, 'x') + "...\"");
  EXPECT_EQ(Quote(std::string(63, 'x') + "é"), "\"" + std::string(63, 'x') + "...\"") << "between characters";
}

}  // namespace
}  // namespace ckn
