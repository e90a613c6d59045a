#include "server/training/features.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/base/status.h"

namespace ckn {
namespace {

constexpr Eigen::Index kRowsPerTask = 256;

// Calls body(first, count) for blocks of rows, on all threads.
template <typename Body>
void ForEachRowBlock(Eigen::Index rows, ThreadPool& pool, Body body) {
  const auto blocks = static_cast<std::size_t>((rows + kRowsPerTask - 1) / kRowsPerTask);
  pool.ParallelFor(blocks, [&](std::size_t block, int) {
    const Eigen::Index first = static_cast<Eigen::Index>(block) * kRowsPerTask;
    body(static_cast<Eigen::Index>(block), first, std::min(kRowsPerTask, rows - first));
  });
}

}  // namespace

absl::StatusOr<RowMatrixF> EncodeDataset(const Dataset& data, std::span<const std::size_t> rows, const InputSpec& input,
                                         const Encoder& encoder, ThreadPool& pool, const Progress& progress) {
  const int features = encoder.feature_count();
  RowMatrixF x(static_cast<Eigen::Index>(rows.size()), features + 1);
  absl::Mutex mu;
  absl::Status failure;
  pool.ParallelFor(rows.size(), [&](std::size_t i, int) {
    if (progress.stopped()) return;
    const absl::StatusOr<FeatureMap> map = Preprocess(data.Image(rows[i]), input);
    if (!map.ok()) {
      const absl::MutexLock lock(&mu);
      failure.Update(map.status());
      return;
    }
    float* row = x.row(static_cast<Eigen::Index>(i)).data();
    encoder.Encode(*map, {row, static_cast<std::size_t>(features)});
    row[features] = 1;
  });
  if (!failure.ok()) return failure;
  if (progress.stopped()) return StoppedError();
  return x;
}

absl::StatusOr<std::vector<int>> PredictClasses(const Pipeline& pipeline, const Dataset& data, std::size_t count,
                                                ThreadPool& pool, const Progress& progress) {
  std::vector<int> predicted(count);
  absl::Mutex mu;
  absl::Status failure;
  pool.ParallelFor(count, [&](std::size_t i, int) {
    if (progress.stopped()) return;
    const absl::StatusOr<std::vector<float>> scores = pipeline.Classify(data.Image(i));
    if (scores.ok()) {
      predicted[i] = ArgMax(*scores);
      return;
    }
    const absl::MutexLock lock(&mu);
    failure.Update(Annotate(scores.status(), absl::StrCat("image ", i)));
  });
  if (!failure.ok()) return failure;
  if (progress.stopped()) return StoppedError();
  return predicted;
}

Standardization FitStandardization(const Eigen::Ref<const RowMatrixF>& x, ThreadPool& pool) {
  const Eigen::Index features = x.cols() - 1;
  const auto n = static_cast<double>(x.rows());
  const auto blocks = static_cast<std::size_t>((x.rows() + kRowsPerTask - 1) / kRowsPerTask);

  // Short sums in single precision, the sums of blocks in double, in their order.
  std::vector<Eigen::VectorXf> sums(blocks);
  ForEachRowBlock(x.rows(), pool, [&](Eigen::Index block, Eigen::Index first, Eigen::Index count) {
    sums[block] = x.block(first, 0, count, features).colwise().sum().transpose();
  });
  Eigen::VectorXd mean = Eigen::VectorXd::Zero(features);
  for (const Eigen::VectorXf& sum : sums) mean += sum.cast<double>();
  mean /= n;

  Standardization result;
  result.mean = mean.cast<float>();
  std::vector<double> norms(blocks);
  ForEachRowBlock(x.rows(), pool, [&](Eigen::Index block, Eigen::Index first, Eigen::Index count) {
    for (Eigen::Index i = first; i < first + count; ++i) {
      norms[block] += (x.row(i).head(features).transpose() - result.mean).norm();
    }
  });
  double total = 0;
  for (const double norm : norms) total += norm;
  // Features that are all alike have no scale; any will do.
  result.scale = total > 0 ? static_cast<float>(total / n) : 1.0F;
  return result;
}

void Standardize(const Standardization& standardization, Eigen::Ref<RowMatrixF> x, ThreadPool& pool) {
  ForEachRowBlock(x.rows(), pool, [&](Eigen::Index, Eigen::Index first, Eigen::Index count) {
    for (Eigen::Index i = first; i < first + count; ++i) {
      standardization.Apply({x.row(i).data(), static_cast<std::size_t>(x.cols() - 1)});
    }
  });
}

void Unstandardize(const Standardization& standardization, Eigen::Ref<RowMatrixF> x, ThreadPool& pool) {
  ForEachRowBlock(x.rows(), pool, [&](Eigen::Index, Eigen::Index first, Eigen::Index count) {
    for (Eigen::Index i = first; i < first + count; ++i) {
      auto row = x.row(i).head(x.cols() - 1);
      row = row * standardization.scale + standardization.mean.transpose();
    }
  });
}

}  // namespace ckn
