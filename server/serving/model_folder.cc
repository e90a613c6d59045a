#include "server/serving/model_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/base/quote.h"
#include "server/base/status.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;

struct Listing {
  std::vector<std::string> model_files, folders;  // names, sorted
};

// Follows links: mounted configuration is often a link.
absl::StatusOr<Listing> List(const fs::path& folder) {
  Listing listing;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.front() == '.') continue;
    if (entry->is_directory(ignored)) listing.folders.push_back(name);
    if (entry->path().extension() == ".ckn" && entry->is_regular_file(ignored)) listing.model_files.push_back(name);
  }
  if (error) return absl::NotFoundError(absl::StrCat("models folder ", Quote(folder.string()), ": ", error.message()));
  std::sort(listing.model_files.begin(), listing.model_files.end());
  std::sort(listing.folders.begin(), listing.folders.end());
  return listing;
}

// The version that a folder's name is: digits without a leading zero.
std::optional<std::int64_t> ParseVersion(std::string_view name) {
  std::int64_t version = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), version);
  if (error != std::errc() || end != name.data() + name.size() || name.front() == '0' || version < 1) {
    return std::nullopt;
  }
  return version;
}

}  // namespace

FileIdentity IdentityOf(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? FileIdentity(status) : FileIdentity();
}

absl::StatusOr<std::vector<ModelFileEntry>> ScanModelFolder(const std::string& folder) {
  const fs::path root(folder);
  std::vector<ModelFileEntry> entries;
  const auto add = [&entries](const fs::path& path, const std::string& folder_name, std::int64_t version) {
    entries.push_back({path.string(), folder_name, version, IdentityOf(path.string())});
  };
  CKN_ASSIGN_OR_RETURN(const Listing top, List(root));
  for (const std::string& file : top.model_files) add(root / file, {}, 1);
  for (const std::string& name : top.folders) {
    // A folder that cannot be read may not be meant for us.
    const absl::StatusOr<Listing> versions = List(root / name);
    if (!versions.ok()) continue;
    for (const std::string& version_name : versions->folders) {
      const std::optional<std::int64_t> version = ParseVersion(version_name);
      if (!version) continue;
      const fs::path version_folder = root / name / version_name;
      CKN_ASSIGN_OR_RETURN(const Listing files, List(version_folder));
      if (files.model_files.size() > 1) {
        return absl::InvalidArgumentError(absl::StrCat(version_folder.string(), ": got the model files ",
                                                       Quote(files.model_files[0]), " and ",
                                                       Quote(files.model_files[1]), ", expected one"));
      }
      if (!files.model_files.empty()) add(version_folder / files.model_files.front(), name, *version);
    }
  }
  if (entries.empty()) {
    return absl::NotFoundError(absl::StrCat("models folder ", Quote(folder), " holds no *.ckn file"));
  }
  std::ranges::sort(entries, {}, &ModelFileEntry::path);
  return entries;
}

}  // namespace ckn
