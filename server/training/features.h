#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/feature_extractor.h"
#include "server/novelty.h"
#include "server/pipeline.h"
#include "server/svm/linear_svm.h"
#include "server/training/dataset.h"
#include "server/training/progress.h"

namespace ckn {

// Feature matrices of the classifier's training have one column more than there are features: ones, whose weight is
// the bias.

// Features of data.Image(rows[i]), not standardised: [rows.size()][features + 1]. `residuals`, if not nullptr, becomes
// those of the images, [rows.size()]; only if the extractor has them.
absl::StatusOr<RowMatrixF> EncodeDataset(const Dataset& data, std::span<const std::size_t> rows,
                                         const FeatureExtractor& extractor, ThreadPool& pool, const Progress& progress,
                                         std::vector<float>* residuals = nullptr);

// For each part of the features, `counts` wide, one behind the other: mean of the rows and average norm of what is
// left, the paper's "centered, rescaled to have unit l2-norm on average". x [n][features + 1], n >= 1; the counts add
// up to the features.
std::vector<Standardization> FitStandardizations(const Eigen::Ref<const RowMatrixF>& x, std::span<const int> counts,
                                                 ThreadPool& pool);

// x -> (x - mean) / scale on all columns but the last; the inverse undoes it up to rounding.
void Standardize(std::span<const Standardization> standardizations, Eigen::Ref<RowMatrixF> x, ThreadPool& pool);
void Unstandardize(std::span<const Standardization> standardizations, Eigen::Ref<RowMatrixF> x, ThreadPool& pool);

// Margins of each of the first `count` images, [count][classes]. Every image is scored by itself, so the result does
// not depend on the threads. Errors name the image. `novelties`, if not nullptr, becomes the images', [count].
absl::StatusOr<RowMatrixF> ScoreImages(const Pipeline& pipeline, const Dataset& data, std::size_t count,
                                       ThreadPool& pool, const Progress& progress,
                                       std::vector<std::optional<Novelty>>* novelties = nullptr);

// The class of the largest margin, of each row.
std::vector<int> PredictedClasses(const RowMatrixF& scores);

}  // namespace ckn
