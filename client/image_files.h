#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ckn {

// The files that the arguments name: a file stands for itself, a folder for the image files directly in it (told by
// extension, any case), sorted by name. A path that does not exist stays, so that reading it gives the error.
// NOT_FOUND: a folder without an image file.
absl::StatusOr<std::vector<std::string>> ExpandImagePaths(const std::vector<std::string>& paths);

// The bytes of a file. NOT_FOUND, or FAILED_PRECONDITION: larger than `max_bytes`, or not readable; messages do not
// repeat the path.
absl::StatusOr<std::string> ReadFileBytes(const std::string& path, std::int64_t max_bytes);

}  // namespace ckn
