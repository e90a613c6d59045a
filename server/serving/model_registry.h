#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
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
  v1::Provenance provenance;
  std::string path;
  std::size_t longest_class_name = 0;  // bytes
};

// Reads one model file, builds its pipeline and runs it once on an all-zero image, so that the first call pays for
// nothing and a model that cannot compute is refused here. Messages start with the path.
absl::StatusOr<std::shared_ptr<const ServedModel>> LoadServedModel(const std::string& path, std::int64_t version,
                                                                   const ModelLimits& limits = {},
                                                                   Precision precision = Precision::kFloat32);

// A model's versions; the last one is the latest. Never empty in a ModelSet.
using ModelVersions = std::map<std::int64_t, std::shared_ptr<const ServedModel>>;
// Loaded models by name.
using ModelSet = std::map<std::string, ModelVersions, std::less<>>;

// A model file that cannot be used.
struct FailedModel {
  std::string name;  // of the model, where it is known; else the file's, without its extension
  std::int64_t version = 1;
  std::string reason;  // begins with the path
};

// The models that calls see. A call takes its model once and keeps it for as long as it runs; replacing the set does
// not touch calls in flight. Thread-safe.
class ModelRegistry {
 public:
  struct Contents {
    ModelSet models;
    std::vector<FailedModel> failed;
  };

  ModelRegistry() : contents_(std::make_shared<const Contents>()) {}

  void Replace(ModelSet models, std::vector<FailedModel> failed = {});
  [[nodiscard]] std::shared_ptr<const Contents> Snapshot() const;

  // An empty name means the only model there is, an empty version the latest. INVALID_ARGUMENT: no name, and there are
  // several; NOT_FOUND: no such model or version, or none at all.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const ServedModel>> Find(std::string_view name,
                                                                        std::string_view version = {}) const;

 private:
  mutable absl::Mutex mu_;
  std::shared_ptr<const Contents> contents_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ckn
