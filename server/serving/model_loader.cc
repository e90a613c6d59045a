#include "server/serving/model_loader.h"

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/guarded.h"
#include "server/base/quote.h"
#include "server/base/status.h"
#include "spdlog/spdlog.h"

namespace ckn {
namespace {

std::string Label(const ServedModel& model) {
  return absl::StrCat(Quote(model.info.name()), " version ", model.info.version());
}

// Whether another try may go better with the same file: it is not its contents that are wrong.
bool MayPass(const absl::Status& status) {
  return !status.ok() && !absl::IsDataLoss(status) && !absl::IsInvalidArgument(status) &&
         !absl::IsUnimplemented(status) && !absl::IsInternal(status);
}

// The model of `set` with the name and version of `like`, or nullptr.
const ServedModel* FindSame(const ModelSet& set, const ServedModel& like) {
  const auto versions = set.find(like.info.name());
  if (versions == set.end()) return nullptr;
  for (const auto& [number, model] : versions->second) {
    if (model->info.version() == like.info.version()) return model.get();
  }
  return nullptr;
}

// The models of `of` that are not in `other`.
std::vector<std::string> Difference(const ModelSet& of, const ModelSet& other, bool same_file_only) {
  std::vector<std::string> labels;
  for (const auto& [name, versions] : of) {
    for (const auto& [number, model] : versions) {
      const ServedModel* const found = FindSame(other, *model);
      if (found == nullptr || (same_file_only && found != model.get())) labels.push_back(Label(*model));
    }
  }
  return labels;
}

}  // namespace

ModelLoader::ModelLoader(std::string folder, ModelRegistry& registry, Metrics& metrics, const ModelLimits& limits,
                         Precision precision)
    : folder_(std::move(folder)), registry_(registry), metrics_(metrics), limits_(limits), precision_(precision) {}

ModelLoader::File ModelLoader::ReadFile(const ModelFileEntry& entry) const {
  File file;
  file.identity = entry.identity;
  file.name = entry.folder_name;
  file.version = entry.version;
  if (file.name.empty()) file.name = std::filesystem::path(entry.path).stem().string();
  file.status = Guarded([&]() -> absl::Status {
    CKN_ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model,
                         LoadServedModel(entry.path, entry.version, limits_, precision_));
    if (!entry.folder_name.empty() && model->info.name() != entry.folder_name) {
      return absl::InvalidArgumentError(absl::StrCat(entry.path, ": the model is named ", Quote(model->info.name()),
                                                     ", expected ", Quote(entry.folder_name), " like its folder"));
    }
    file.name = model->info.name();
    file.model = std::move(model);
    return absl::OkStatus();
  });
  // What a library throws, above all for lack of memory, does not know the file.
  if (!absl::StartsWith(file.status.message(), entry.path)) file.status = Annotate(file.status, entry.path);
  metrics_.CountModelLoad(file.status.ok());
  return file;
}

ModelLoader::File ModelLoader::Follow(const ModelFileEntry& entry, const File* before) const {
  const std::string& name = before != nullptr ? before->name : entry.folder_name;
  if (unloaded_.contains(name)) {
    File file;
    file.identity = entry.identity;
    file.name = name;
    file.version = entry.version;
    file.unloaded = true;
    return file;
  }
  if (before != nullptr && !before->unloaded && before->identity == entry.identity && !MayPass(before->status)) {
    return *before;
  }
  File file = ReadFile(entry);
  if (!file.status.ok() && before != nullptr) {
    file.name = before->name;
    file.model = before->model;
  }
  return file;
}

absl::StatusOr<ModelFolderContents> ModelLoader::Scan() {
  absl::StatusOr<ModelFolderContents> contents = ScanModelFolder(folder_);
  if (!contents.ok()) {
    metrics_.SetFailedModels(failed_count_ + 1);
    return contents;
  }
  for (const std::string& folder : contents->ignored) {
    if (!ignored_.insert(folder).second) continue;
    spdlog::warn("{} is left out: its name is no version, expected a whole number from 1", Printable(folder));
  }
  return contents;
}

absl::Status ModelLoader::LoadAll() {
  CKN_ASSIGN_OR_RETURN(const ModelFolderContents contents, Scan());
  for (const UnusableFolder& folder : contents.unusable) return folder.status;
  Files files;
  for (const ModelFileEntry& entry : contents.files) {
    File file = ReadFile(entry);
    CKN_RETURN_IF_ERROR(file.status);
    files.emplace(entry.path, std::move(file));
  }
  const Changes changes = Publish(std::move(files), {});
  if (!changes.failed.empty()) return absl::AlreadyExistsError(changes.failed.front().reason);
  return absl::OkStatus();
}

absl::StatusOr<ModelLoader::Changes> ModelLoader::Reload() {
  CKN_ASSIGN_OR_RETURN(const ModelFolderContents contents, Scan());
  Files files;
  for (const ModelFileEntry& entry : contents.files) {
    const auto before = files_.find(entry.path);
    files.emplace(entry.path, Follow(entry, before == files_.end() ? nullptr : &before->second));
  }
  for (const UnusableFolder& folder : contents.unusable) {
    const std::string inside = folder.path + "/";
    for (const auto& [path, file] : files_) {
      if (path.rfind(inside, 0) == 0) files.emplace(path, file);
    }
  }
  return Publish(std::move(files), contents.unusable);
}

ModelLoader::Changes ModelLoader::Publish(Files files, const std::vector<UnusableFolder>& unusable) {
  files_ = std::move(files);
  unusable_ = unusable;
  const std::shared_ptr<const ModelRegistry::Contents> before = registry_.Snapshot();
  Changes changes;
  ModelSet models;
  const auto add = [&](const File& file) {
    const std::string& name = file.model->info.name();
    if (unloaded_.contains(name)) return;
    const auto [existing, inserted] = models[name].emplace(file.version, file.model);
    if (inserted) return;
    changes.failed.push_back({name, file.version,
                              absl::StrCat(file.model->path, ": holds the model ", Label(*file.model), ", and so does ",
                                           existing->second->path)});
  };
  const auto serves = [&](const File& file) { return FindSame(before->models, *file.model) == file.model.get(); };
  for (const bool served : {true, false}) {
    for (const auto& [path, file] : files_) {
      if (file.model != nullptr && serves(file) == served) add(file);
    }
  }
  for (const auto& [path, file] : files_) {
    if (!file.status.ok()) changes.failed.push_back({file.name, file.version, std::string(file.status.message())});
  }
  for (const UnusableFolder& folder : unusable_) {
    changes.failed.push_back({folder.name, 0, std::string(folder.status.message())});
  }
  changes.loaded = Difference(models, before->models, true);
  changes.removed = Difference(before->models, models, false);

  std::vector<std::string> names;
  for (const auto& [name, versions] : models) names.insert(names.end(), versions.size(), name);
  metrics_.SetModels(names);
  failed_count_ = changes.failed.size();
  metrics_.SetFailedModels(failed_count_);
  registry_.Replace(std::move(models), changes.failed);
  return changes;
}

absl::Status ModelLoader::Load(const std::string& name) {
  const bool was_unloaded = unloaded_.erase(name) > 0;
  const absl::StatusOr<Changes> changes = Reload();
  if (!changes.ok()) {
    if (was_unloaded) unloaded_.insert(name);
    return changes.status();
  }
  for (const FailedModel& failed : changes->failed) {
    if (failed.name == name) return absl::FailedPreconditionError(failed.reason);
  }
  if (registry_.Snapshot()->models.contains(name)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("model ", Quote(name), ": no file of the models folder holds it"));
}

absl::Status ModelLoader::Unload(const std::string& name) {
  if (!registry_.Snapshot()->models.contains(name)) {
    return absl::NotFoundError(absl::StrCat("model ", Quote(name), " is not loaded"));
  }
  unloaded_.insert(name);
  Files files = std::move(files_);
  for (auto& [path, file] : files) {
    if (file.name != name) continue;
    file.model = nullptr;
    file.status = absl::OkStatus();
    file.unloaded = true;
  }
  Publish(std::move(files), unusable_);
  return absl::OkStatus();
}

}  // namespace ckn
