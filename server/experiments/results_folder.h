#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ckn {

// Where an experiment keeps what it found, one JSON file a piece of work, so that an interrupted run goes on where it
// stopped and results can be read, compared and kept by other programs:
//   PATH/cells/NAME.json    one cell of the table
//   PATH/layers/NAME.json   how the filters of an architecture were learned
//   PATH/cache/             large things that can be made again: learned layers, model files
class ResultsFolder {
 public:
  // Makes the folders that are missing.
  static absl::StatusOr<ResultsFolder> Open(const std::string& path);

  [[nodiscard]] bool HasCell(const std::string& name) const;
  absl::Status WriteCell(const std::string& name, const nlohmann::ordered_json& result) const;
  // PATH/NAME.json, what the whole experiment found.
  absl::Status Write(const std::string& name, const nlohmann::ordered_json& result) const;
  absl::Status WriteLayers(const std::string& name, const nlohmann::ordered_json& result) const;
  // PATH/cache/NAME
  [[nodiscard]] std::string CacheFile(const std::string& name) const;

 private:
  explicit ResultsFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace ckn
