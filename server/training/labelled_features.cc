#include "server/training/labelled_features.h"

#include "absl/strings/str_format.h"
#include "server/training/features.h"

namespace ckn {

absl::StatusOr<RowMatrixF> ImageFeatures::Read(std::span<const std::size_t> rows, const FeatureExtractor& extractor,
                                               ThreadPool& pool, const Progress& progress,
                                               std::vector<float>* residuals) const {
  progress.report(absl::StrFormat("encoding %d images to %d features", rows.size(), extractor.feature_count()));
  return EncodeDataset(data_, rows, extractor, pool, progress, residuals);
}

absl::StatusOr<RowMatrixF> ImageFeatures::Score(const Pipeline& pipeline, ThreadPool& pool,
                                                const Progress& progress) const {
  return ScoreImages(pipeline, data_, data_.size(), pool, progress);
}

}  // namespace ckn
