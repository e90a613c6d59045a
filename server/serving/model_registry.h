#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "ckn/v1/inference.pb.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"

namespace ckn {

// A model that answers calls: loaded, checked and warm. Immutable.
struct ServedModel {
  Pipeline pipeline;
  v1::ModelInfo info;
  std::string path;
  std::size_t longest_class_name = 0;  // bytes
};

// Loaded models by name.
using ModelSet = std::map<std::string, std::shared_ptr<const ServedModel>, std::less<>>;

// Reads one model file, builds its pipeline and runs it once on an all-zero image, so that the first call pays for
// nothing and a model that cannot compute is refused here. Messages start with the path.
absl::StatusOr<std::shared_ptr<const ServedModel>> LoadServedModel(const std::string& path,
                                                                   const ModelLimits& limits = {});

// Loads every *.ckn file of a folder. NOT_FOUND: no such folder, or no model in it; ALREADY_EXISTS: two files hold
// models of one name (both are named); for a file that cannot be used, LoadServedModel's error.
absl::StatusOr<ModelSet> LoadModelFolder(const std::string& folder, const ModelLimits& limits = {});

// The models that calls see. A call takes its model once and keeps it for as long as it runs; replacing the set does
// not touch calls in flight. Thread-safe.
class ModelRegistry {
 public:
  ModelRegistry() : models_(std::make_shared<const ModelSet>()) {}

  void Replace(ModelSet models);
  [[nodiscard]] std::shared_ptr<const ModelSet> Snapshot() const;

  // An empty name means the only model there is. INVALID_ARGUMENT: empty, and there are several; NOT_FOUND: no such
  // model, or none at all.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const ServedModel>> Find(std::string_view name) const;

 private:
  mutable absl::Mutex mu_;
  std::shared_ptr<const ModelSet> models_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ckn
