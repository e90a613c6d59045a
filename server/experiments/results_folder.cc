#include "server/experiments/results_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/base/atomic_file.h"

namespace ckn {
namespace {

// One line a key: short enough to read, and a difference between two runs is seen.
absl::Status WriteJson(const std::string& path, const nlohmann::ordered_json& json) {
  std::string text = "{";
  for (const auto& [key, value] : json.items()) {
    absl::StrAppend(&text, text.size() == 1 ? "\n" : ",\n", " \"", key, "\": ", value.dump());
  }
  return WriteFileAtomically(path, text + "\n}\n");
}

}  // namespace

absl::StatusOr<ResultsFolder> ResultsFolder::Open(const std::string& path) {
  for (const char* const part : {"cells", "layers", "cache"}) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path) / part, error);
    if (error) return absl::InvalidArgumentError(absl::StrCat(path, "/", part, ": ", error.message()));
  }
  return ResultsFolder(path);
}

bool ResultsFolder::HasCell(const std::string& name) const {
  std::error_code error;
  return std::filesystem::exists(absl::StrCat(path_, "/cells/", name, ".json"), error);
}

absl::Status ResultsFolder::WriteCell(const std::string& name, const nlohmann::ordered_json& result) const {
  return WriteJson(absl::StrCat(path_, "/cells/", name, ".json"), result);
}

absl::Status ResultsFolder::Write(const std::string& name, const nlohmann::ordered_json& result) const {
  return WriteJson(absl::StrCat(path_, "/", name, ".json"), result);
}

absl::Status ResultsFolder::WriteLayers(const std::string& name, const nlohmann::ordered_json& result) const {
  return WriteJson(absl::StrCat(path_, "/layers/", name, ".json"), result);
}

std::string ResultsFolder::CacheFile(const std::string& name) const { return absl::StrCat(path_, "/cache/", name); }

}  // namespace ckn
