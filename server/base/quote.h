#pragma once

#include <string>
#include <string_view>

namespace ckn {

// Text from outside (a client, a file), fit for an error message, a log line or a terminal.

// `text` itself when it is printable UTF-8 (see IsPrintableUtf8); else with every byte outside printable ASCII as \xNN.
std::string Printable(std::string_view text);
// Printable text in one line: what is left of line ends and tabs, with the blanks around them, is a single blank.
std::string OneLine(std::string_view text);
// Printable text in double quotes, cut to its first 64 bytes; "..." marks a cut.
std::string Quote(std::string_view text);

}  // namespace ckn
