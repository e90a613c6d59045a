#include "client/image_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;

bool HasImageExtension(const fs::path& path) {
  constexpr std::array<std::string_view, 11> kExtensions = {".png",  ".jpg", ".jpeg", ".webp", ".bmp", ".tif",
                                                            ".tiff", ".pbm", ".pgm",  ".ppm",  ".pnm"};
  const std::string extension = absl::AsciiStrToLower(path.extension().string());
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

absl::Status ErrnoStatus(int error) {
  const std::string message = std::generic_category().message(error);
  return error == ENOENT ? absl::NotFoundError(message) : absl::FailedPreconditionError(message);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandImagePaths(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::size_t first = files.size();
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      std::error_code ignored;
      if (HasImageExtension(entry->path()) && entry->is_regular_file(ignored)) files.push_back(entry->path().string());
    }
    if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
    if (files.size() == first) {
      return absl::NotFoundError(absl::StrCat(path, ": no image files (png, jpg, webp, bmp, tif, pnm) in this folder"));
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  return files;
}

absl::StatusOr<std::string> ReadFileBytes(const std::string& path, std::int64_t max_bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (file == nullptr) return ErrnoStatus(errno);
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    bytes.append(buffer.data(), got);
    if (static_cast<std::int64_t>(bytes.size()) > max_bytes) {
      return absl::FailedPreconditionError(absl::StrCat("larger than ", max_bytes, " bytes, the limit of a message"));
    }
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno);
  return bytes;
}

}  // namespace ckn
