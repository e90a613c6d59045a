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

// Follows links: mounted configuration is often a link. One that leads nowhere is nothing.
absl::StatusOr<Listing> List(const fs::path& folder) {
  Listing listing;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.front() == '.') continue;
    const fs::file_type type = entry->status(error).type();
    if (error == std::errc::no_such_file_or_directory || error == std::errc::too_many_symbolic_link_levels) {
      error.clear();
    }
    if (error) break;
    if (type == fs::file_type::directory) listing.folders.push_back(name);
    if (type == fs::file_type::regular && entry->path().extension() == ".ckn") listing.model_files.push_back(name);
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

absl::StatusOr<ModelFolderContents> ScanModelFolder(const std::string& folder) {
  const fs::path root(folder);
  ModelFolderContents contents;
  const auto add = [&contents](const fs::path& path, const std::string& folder_name, std::int64_t version) {
    contents.files.push_back({path.string(), folder_name, version, IdentityOf(path.string())});
  };
  CKN_ASSIGN_OR_RETURN(const Listing top, List(root));
  for (const std::string& file : top.model_files) add(root / file, {}, 1);
  for (const std::string& name : top.folders) {
    const auto unusable = [&](const fs::path& path, const absl::Status& status) {
      contents.unusable.push_back({path.string(), name, status});
    };
    const absl::StatusOr<Listing> versions = List(root / name);
    if (!versions.ok()) {
      unusable(root / name, versions.status());
      continue;
    }
    for (const std::string& file : versions->model_files) {
      unusable(root / name / file,
               absl::InvalidArgumentError(absl::StrCat(
                   (root / name / file).string(), ": a model file in a folder without a version; ", "expected ",
                   Quote((root / name / "1" / file).string()), " or ", Quote((root / file).string()))));
    }
    for (const std::string& version_name : versions->folders) {
      const std::optional<std::int64_t> version = ParseVersion(version_name);
      const fs::path version_folder = root / name / version_name;
      const absl::StatusOr<Listing> files = List(version_folder);
      if (!version) {
        if (files.ok() && !files->model_files.empty()) contents.ignored.push_back(version_folder.string());
      } else if (!files.ok()) {
        unusable(version_folder, files.status());
      } else if (files->model_files.size() > 1) {
        unusable(version_folder, absl::InvalidArgumentError(absl::StrCat(
                                     version_folder.string(), ": got the model files ", Quote(files->model_files[0]),
                                     " and ", Quote(files->model_files[1]), ", expected one")));
      } else if (!files->model_files.empty()) {
        add(version_folder / files->model_files.front(), name, *version);
      }
    }
  }
  if (contents.files.empty() && contents.unusable.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "models folder ", Quote(folder), " holds no *.ckn file",
        contents.ignored.empty() ? "" : absl::StrCat(", but for ", contents.ignored.front(), ", which is no version")));
  }
  std::ranges::sort(contents.files, {}, &ModelFileEntry::path);
  return contents;
}

}  // namespace ckn
