#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/matrix.h"
#include "server/base/thread_pool.h"
#include "server/ckn/encoder.h"
#include "server/image/preprocess.h"
#include "server/pipeline.h"
#include "server/svm/linear_svm.h"
#include "server/training/dataset.h"
#include "server/training/progress.h"

namespace ckn {

// Feature matrices of the classifier's training have one column more than there are features: ones, whose weight is
// the bias.

// Features of data.Image(rows[i]), not standardised: [rows.size()][features + 1].
absl::StatusOr<RowMatrixF> EncodeDataset(const Dataset& data, std::span<const std::size_t> rows, const InputSpec& input,
                                         const Encoder& encoder, ThreadPool& pool, const Progress& progress);

// Mean of the rows and average norm of what is left: the paper's "centered, rescaled to have unit l2-norm on average".
// x [n][features + 1], n >= 1.
Standardization FitStandardization(const Eigen::Ref<const RowMatrixF>& x, ThreadPool& pool);

// x -> (x - mean) / scale on all columns but the last; the inverse undoes it up to rounding.
void Standardize(const Standardization& standardization, Eigen::Ref<RowMatrixF> x, ThreadPool& pool);
void Unstandardize(const Standardization& standardization, Eigen::Ref<RowMatrixF> x, ThreadPool& pool);

// Predicted class of each of the first `count` images. Every image is scored by itself, so the result does not depend
// on the threads. Errors name the image.
absl::StatusOr<std::vector<int>> PredictClasses(const Pipeline& pipeline, const Dataset& data, std::size_t count,
                                                ThreadPool& pool, const Progress& progress);

}  // namespace ckn
