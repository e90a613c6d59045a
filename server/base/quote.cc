#include "server/base/quote.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "server/base/utf8.h"

namespace ckn {

std::string Printable(std::string_view text) {
  if (IsPrintableUtf8(text)) return std::string(text);
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::string OneLine(std::string_view text) {
  std::string line;
  bool begins = true;
  for (const char c : text) {
    if (std::string_view("\t\n\v\f\r").find(c) != std::string_view::npos) {
      begins = true;
    } else if (!begins || c != ' ') {
      if (begins) line.erase(line.find_last_not_of(' ') + 1);
      if (begins && !line.empty()) line += ' ';
      begins = false;
      line += c;
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return Printable(line);
}

std::string Quote(std::string_view text) {
  constexpr std::size_t kMaxBytes = 64;
  return absl::StrCat("\"", Printable(Utf8Prefix(text, kMaxBytes)), text.size() > kMaxBytes ? "...\"" : "\"");
}

}  // namespace ckn
