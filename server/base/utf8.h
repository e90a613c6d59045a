#pragma once

#include <cstddef>
#include <string_view>

namespace ckn {

// Whether `text` is well-formed UTF-8 without control characters (C0, DEL, C1, line and paragraph separators): safe to
// print, to log and to put in a protobuf string.
bool IsPrintableUtf8(std::string_view text);

// The beginning of `text` of at most `max_bytes`, cut between characters: well-formed UTF-8 stays well-formed, as
// strings of Protobuf messages must be.
std::string_view Utf8Prefix(std::string_view text, std::size_t max_bytes);

}  // namespace ckn
