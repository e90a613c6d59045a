#pragma once

#include <string_view>

namespace ckn {

// Whether `text` is well-formed UTF-8 without control characters (C0, DEL, C1, line and paragraph separators): safe to
// print, to log and to put in a protobuf string.
bool IsPrintableUtf8(std::string_view text);

}  // namespace ckn
