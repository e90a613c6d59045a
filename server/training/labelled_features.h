#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/feature_extractor.h"
#include "server/pipeline.h"
#include "server/training/dataset.h"
#include "server/training/progress.h"

namespace ckn {

// Features of labelled images: what a classifier is learned from and what its error is measured on, whether the images
// are encoded now (ImageFeatures) or were before (ShardFeatures). Both give the same numbers.
class LabelledFeatures {
 public:
  virtual ~LabelledFeatures() = default;

  [[nodiscard]] virtual const DatasetLabels& labels() const = 0;
  // DatasetSha256 of the images.
  [[nodiscard]] virtual std::string sha256() const = 0;
  // Those of some images, `rows`, not standardised: [rows.size()][features + 1], a column of ones behind them.
  // `residuals`, if not nullptr, becomes the images', [rows.size()]; only if the extractor has them.
  virtual absl::StatusOr<RowMatrixF> Read(std::span<const std::size_t> rows, const FeatureExtractor& extractor,
                                          ThreadPool& pool, const Progress& progress,
                                          std::vector<float>* residuals) const = 0;
  // Margins of all images, [size][classes].
  virtual absl::StatusOr<RowMatrixF> Score(const Pipeline& pipeline, ThreadPool& pool,
                                           const Progress& progress) const = 0;
};

// Of images, encoded when they are asked for.
class ImageFeatures : public LabelledFeatures {
 public:
  // `data` must outlive it.
  explicit ImageFeatures(const Dataset& data) : data_(data) {}

  [[nodiscard]] const DatasetLabels& labels() const override { return data_; }
  [[nodiscard]] std::string sha256() const override { return DatasetSha256(data_); }
  absl::StatusOr<RowMatrixF> Read(std::span<const std::size_t> rows, const FeatureExtractor& extractor,
                                  ThreadPool& pool, const Progress& progress,
                                  std::vector<float>* residuals) const override;
  absl::StatusOr<RowMatrixF> Score(const Pipeline& pipeline, ThreadPool& pool, const Progress& progress) const override;

 private:
  const Dataset& data_;
};

}  // namespace ckn
