#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/model_file.h"
#include "server/training/feature_shards.h"
#include "server/training/labelled_features.h"

namespace ckn {

// Features that ckn encode --unscaled --shard has written. They go straight to their place in the matrix: no more
// memory is needed than for features of images, without the images.
class ShardFeatures : public LabelledFeatures {
 public:
  // One folder a model, in the order of the models whose networks are put side by side. Reads the manifests only.
  // FAILED_PRECONDITION: a folder has features of another kind, model or split, or not of the same images as the first;
  // and the codes of FeatureShards.
  static absl::StatusOr<ShardFeatures> Open(std::span<const std::string> folders, std::span<const LoadedModel> models,
                                            Split split);

  // Reads all files, so that damage is known before work that would be lost.
  absl::Status Check(ThreadPool& pool, const Progress& progress) const;

  [[nodiscard]] const DatasetLabels& labels() const override { return labels_; }
  // To give the classes other names.
  [[nodiscard]] DatasetLabels& labels() { return labels_; }
  [[nodiscard]] std::string sha256() const override { return folders_.front().source().data_sha256; }
  // Of the images, see Provenance.
  [[nodiscard]] const std::string& decoders() const { return folders_.front().source().decoders; }

  absl::StatusOr<RowMatrixF> Read(std::span<const std::size_t> rows, const FeatureExtractor& extractor,
                                  ThreadPool& pool, const Progress& progress,
                                  std::vector<float>* residuals) const override;
  absl::StatusOr<RowMatrixF> Score(const Pipeline& pipeline, ThreadPool& pool, const Progress& progress) const override;

 private:
  ShardFeatures() = default;

  // Calls `take` with one block of a folder's rows after the other, on all threads.
  template <typename Take>
  absl::Status ReadAll(ThreadPool& pool, const Progress& progress, const Take& take) const;

  std::vector<FeatureShards> folders_;
  DatasetLabels labels_;
};

}  // namespace ckn
