#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/serving/metrics.h"
#include "server/serving/model_folder.h"
#include "server/serving/model_registry.h"

namespace ckn {

// Brings the models of a folder into a registry, and again when the folder has changed. A file is read, checked and
// warm before calls see it; until then, and if it cannot be used, what was there goes on serving. Not thread-safe: one
// thread loads, any number may use the registry meanwhile.
class ModelLoader {
 public:
  // Registry and metrics must outlive this.
  ModelLoader(std::string folder, ModelRegistry& registry, Metrics& metrics, const ModelLimits& limits = {},
              Precision precision = Precision::kFloat32);

  // At the start of a server: any file that cannot be used is an error, which names it. Like ScanModelFolder's, and
  // ALREADY_EXISTS: two files hold one version of a model.
  absl::Status LoadAll();

  // What a look at the folder has changed.
  struct Changes {
    std::vector<std::string> loaded, removed;  // "NAME version V", sorted
    std::vector<FailedModel> failed;           // all files that cannot be used now, not only new ones
  };
  // Reads what is new or changed and drops what is gone. What lies in a folder that cannot be read is as it was. An
  // error, and nothing changes, when the whole cannot be read or holds no model at all: that is rather a mount that
  // failed than a wish.
  absl::StatusOr<Changes> Reload();

  // Reload(), which also brings back a model that Unload() took away. An error if the model is not there afterwards, or
  // if one of its files cannot be used; where a new file has never been read, its name counts as the model's.
  absl::Status Load(const std::string& name);
  // The model answers no more calls and takes no memory, until Load(). NOT_FOUND: it is not loaded.
  absl::Status Unload(const std::string& name);

 private:
  struct File {
    FileIdentity identity;
    std::string name;  // as in FailedModel
    std::int64_t version = 1;
    // Why it cannot be used, if so; then `model` is what it was before, or nullptr.
    absl::Status status;
    std::shared_ptr<const ServedModel> model;
    bool unloaded = false;  // not read, since its model was taken away
  };
  using Files = std::map<std::string, File>;  // by path

  File ReadFile(const ModelFileEntry& entry) const;
  // A folder that cannot be read counts as one that cannot be used.
  absl::StatusOr<ModelFolderContents> Scan();
  // What has become of a file; `before` is nullptr for a new one.
  File Follow(const ModelFileEntry& entry, const File* before) const;
  // What the files hold becomes what is served; of two with one name and version, the one that serves already stays.
  Changes Publish(Files files, const std::vector<UnusableFolder>& unusable);

  const std::string folder_;
  ModelRegistry& registry_;
  Metrics& metrics_;
  const ModelLimits limits_;
  const Precision precision_;
  Files files_;
  std::vector<UnusableFolder> unusable_;
  std::size_t failed_count_ = 0;
  std::set<std::string> ignored_;  // that have been logged
  std::set<std::string, std::less<>> unloaded_;
};

}  // namespace ckn
