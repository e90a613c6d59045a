#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace ckn {

// The bytes of an 8-bit gray or RGB PNG file with these pixels.
absl::StatusOr<std::string> EncodePng(const ImageU8& image);

}  // namespace ckn
