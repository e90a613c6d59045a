#include "server/training/features.h"

#include <algorithm>
#include <cassert>
#include <numeric>

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

absl::StatusOr<RowMatrixF> EncodeDataset(const Dataset& data, std::span<const std::size_t> rows,
                                         const FeatureExtractor& extractor, ThreadPool& pool, const Progress& progress,
                                         std::vector<float>* residuals) {
  const int features = extractor.feature_count();
  RowMatrixF x(static_cast<Eigen::Index>(rows.size()), features + 1);
  if (residuals != nullptr) residuals->assign(rows.size(), 0);
  absl::Mutex mu;
  absl::Status failure;
  pool.ParallelFor(rows.size(), [&](std::size_t i, int) {
    if (progress.stopped()) return;
    float* row = x.row(static_cast<Eigen::Index>(i)).data();
    const absl::Status status = extractor.Extract(data.Image(rows[i]), {row, static_cast<std::size_t>(features)},
                                                  residuals != nullptr ? &(*residuals)[i] : nullptr);
    row[features] = 1;
    if (status.ok()) return;
    const absl::MutexLock lock(&mu);
    failure.Update(Annotate(status, absl::StrCat("image ", rows[i])));
  });
  if (!failure.ok()) return failure;
  if (progress.stopped()) return StoppedError();
  return x;
}

absl::StatusOr<RowMatrixF> ScoreImages(const Pipeline& pipeline, const Dataset& data, std::size_t count,
                                       ThreadPool& pool, const Progress& progress,
                                       std::vector<std::optional<Novelty>>* novelties) {
  if (novelties != nullptr) novelties->assign(count, std::nullopt);
  RowMatrixF all(static_cast<Eigen::Index>(count), pipeline.class_count());
  absl::Mutex mu;
  absl::Status failure;
  pool.ParallelFor(count, [&](std::size_t i, int) {
    if (progress.stopped()) return;
    const absl::StatusOr<std::vector<float>> scores =
        pipeline.Classify(data.Image(i), novelties != nullptr ? &(*novelties)[i] : nullptr);
    if (scores.ok()) {
      std::copy(scores->begin(), scores->end(), all.row(static_cast<Eigen::Index>(i)).begin());
      return;
    }
    const absl::MutexLock lock(&mu);
    failure.Update(Annotate(scores.status(), absl::StrCat("image ", i)));
  });
  if (!failure.ok()) return failure;
  if (progress.stopped()) return StoppedError();
  return all;
}

std::vector<int> PredictedClasses(const RowMatrixF& scores) {
  std::vector<int> classes;
  for (Eigen::Index i = 0; i < scores.rows(); ++i) {
    classes.push_back(ArgMax({scores.row(i).data(), static_cast<std::size_t>(scores.cols())}));
  }
  return classes;
}

std::vector<Standardization> FitStandardizations(const Eigen::Ref<const RowMatrixF>& x, std::span<const int> counts,
                                                 ThreadPool& pool) {
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

  std::vector<Standardization> result;
  Eigen::Index begin = 0;
  for (const int part : counts) {
    Standardization standardization;
    standardization.mean = mean.segment(begin, part).cast<float>();
    std::vector<double> norms(blocks);
    ForEachRowBlock(x.rows(), pool, [&](Eigen::Index block, Eigen::Index first, Eigen::Index count) {
      for (Eigen::Index i = first; i < first + count; ++i) {
        norms[block] += (x.row(i).segment(begin, part).transpose() - standardization.mean).norm();
      }
    });
    const double total = std::accumulate(norms.begin(), norms.end(), 0.0);
    // Features that are all alike have no scale; any will do.
    standardization.scale = total > 0 ? static_cast<float>(total / n) : 1.0F;
    result.push_back(std::move(standardization));
    begin += part;
  }
  assert(begin == features);
  return result;
}

void Standardize(std::span<const Standardization> standardizations, Eigen::Ref<RowMatrixF> x, ThreadPool& pool) {
  ForEachRowBlock(x.rows(), pool, [&](Eigen::Index, Eigen::Index first, Eigen::Index count) {
    for (Eigen::Index i = first; i < first + count; ++i) {
      Standardize(standardizations, std::span(x.row(i).data(), static_cast<std::size_t>(x.cols() - 1)));
    }
  });
}

void Unstandardize(std::span<const Standardization> standardizations, Eigen::Ref<RowMatrixF> x, ThreadPool& pool) {
  ForEachRowBlock(x.rows(), pool, [&](Eigen::Index, Eigen::Index first, Eigen::Index count) {
    for (Eigen::Index i = first; i < first + count; ++i) {
      Eigen::Index begin = 0;
      for (const Standardization& standardization : standardizations) {
        auto part = x.row(i).segment(begin, standardization.mean.size());
        part = part * standardization.scale + standardization.mean.transpose();
        begin += standardization.mean.size();
      }
    }
  });
}

}  // namespace ckn
