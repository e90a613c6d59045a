#include "server/training/shard_features.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/quote.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// Whether these are the features of a labelled split by this model. Messages do not name the folder.
absl::Status CheckFolder(const FeatureShards& shards, const LoadedModel& model, Split split) {
  const FeatureSource& source = shards.source();
  if (source.standardized) {
    return absl::FailedPreconditionError(
        "got standardised features, expected those of ckn encode --unscaled, which a classifier is trained on");
  }
  if (source.class_names.empty()) {
    return absl::FailedPreconditionError("got features of files, expected those of a data set, which has labels");
  }
  if (source.model_sha256 != model.sha256) {
    return absl::FailedPreconditionError(absl::StrCat(
        "model_sha256: got ", Printable(source.model_sha256), " (", Printable(source.model), "), expected ",
        model.sha256, " (", model.model.name, "); folders come in the order of the model files"));
  }
  if (const std::string expected(SplitName(split)); source.split != expected) {
    return absl::FailedPreconditionError(
        absl::StrCat("split: got ", Quote(source.split), ", expected \"", expected, "\""));
  }
  // Of this model, so nothing but damage makes them differ.
  std::int64_t features = 0;
  for (const Network& network : model.model.networks) features += network.standardization.mean.size();
  if (source.features != features) {
    return absl::DataLossError(absl::StrCat("features: got ", source.features, ", expected ", features));
  }
  const std::size_t residuals = shards.rows().residuals.size();
  if (residuals != 0 && residuals != model.model.networks.size()) {
    return absl::DataLossError(
        absl::StrCat("residuals: got those of ", residuals, " networks, expected ", model.model.networks.size()));
  }
  return absl::OkStatus();
}

// Whether these are features of the same images as the first folder's.
absl::Status CheckSameData(const FeatureShards& shards, const FeatureShards& first) {
  FeatureSource source = shards.source();
  source.model = first.source().model;
  source.model_sha256 = first.source().model_sha256;
  source.features = first.source().features;
  std::string difference = Difference(source, first.source());
  if (difference.empty() && shards.rows().labels != first.rows().labels) difference = "other labels";
  if (difference.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(difference, " as in ", first.folder()));
}

}  // namespace

absl::StatusOr<ShardFeatures> ShardFeatures::Open(std::span<const std::string> folders,
                                                  std::span<const LoadedModel> models, Split split) {
  assert(!folders.empty() && folders.size() == models.size());
  ShardFeatures features;
  for (std::size_t k = 0; k < folders.size(); ++k) {
    CKN_ASSIGN_OR_RETURN(FeatureShards shards, FeatureShards::Open(folders[k]));
    CKN_RETURN_IF_ERROR(Annotate(CheckFolder(shards, models[k], split), folders[k]));
    if (k > 0) CKN_RETURN_IF_ERROR(Annotate(CheckSameData(shards, features.folders_.front()), folders[k]));
    features.folders_.push_back(std::move(shards));
  }
  const FeatureShards& first = features.folders_.front();
  DatasetLabels& labels = features.labels_;
  labels.title = first.source().data;
  labels.labels = first.rows().labels;
  labels.class_names = first.source().class_names;
  labels.has_class_names = first.source().has_class_names;
  labels.folds = first.source().folds;
  return features;
}

template <typename Take>
absl::Status ShardFeatures::ReadAll(ThreadPool& pool, const Progress& progress, const Take& take) const {
  std::vector<std::pair<std::size_t, int>> parts;  // folder, shard
  for (std::size_t k = 0; k < folders_.size(); ++k) {
    for (int shard = 0; shard < folders_[k].count(); ++shard) parts.emplace_back(k, shard);
  }
  std::vector<absl::Status> errors(parts.size());
  pool.ParallelFor(parts.size(), [&](std::size_t i, int) {
    const std::size_t folder = parts[i].first;
    errors[i] = folders_[folder].Read(parts[i].second, [&](std::size_t first, std::span<const float> rows) {
      if (progress.stopped()) return StoppedError();
      take(folder, first, rows);
      return absl::OkStatus();
    });
  });
  if (progress.stopped()) return StoppedError();
  for (const absl::Status& error : errors) CKN_RETURN_IF_ERROR(error);
  return absl::OkStatus();
}

absl::Status ShardFeatures::Check(ThreadPool& pool, const Progress& progress) const {
  return ReadAll(pool, progress, [](std::size_t, std::size_t, std::span<const float>) {});
}

absl::StatusOr<RowMatrixF> ShardFeatures::Read(std::span<const std::size_t> rows, const FeatureExtractor& extractor,
                                               ThreadPool& pool, const Progress& progress,
                                               std::vector<float>* residuals) const {
  progress.report(absl::StrFormat("reading %d rows of %d features", rows.size(), extractor.feature_count()));
  constexpr std::int64_t kNotAsked = -1;
  std::vector<std::int64_t> place(labels_.size(), kNotAsked);
  for (std::size_t i = 0; i < rows.size(); ++i) place[rows[i]] = static_cast<std::int64_t>(i);
  std::vector<std::size_t> begin;  // first column of each folder
  std::size_t columns = 0;
  for (const FeatureShards& folder : folders_) {
    begin.push_back(columns);
    columns += static_cast<std::size_t>(folder.source().features);
  }
  assert(std::cmp_equal(columns, extractor.feature_count()));

  RowMatrixF x(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(columns) + 1);
  x.rightCols(1).setOnes();
  CKN_RETURN_IF_ERROR(ReadAll(pool, progress, [&](std::size_t folder, std::size_t first, std::span<const float> block) {
    const auto width = static_cast<std::size_t>(folders_[folder].source().features);
    for (std::size_t i = 0; i < block.size() / width; ++i) {
      const std::int64_t row = place[first + i];
      if (row != kNotAsked) std::ranges::copy(block.subspan(i * width, width), x.row(row).data() + begin[folder]);
    }
  }));
  if (residuals == nullptr) return x;

  // The sum must have the extractor's order, network by network.
  std::vector<const std::vector<float>*> networks;
  for (const FeatureShards& folder : folders_) {
    for (const std::vector<float>& network : folder.rows().residuals) networks.push_back(&network);
  }
  if (std::cmp_not_equal(networks.size(), extractor.network_count())) {
    return absl::DataLossError(absl::StrFormat("%s: residuals: got those of %d networks, expected %d",
                                               folders_.front().folder(), networks.size(), extractor.network_count()));
  }
  residuals->clear();
  std::vector<float> of_image(networks.size());
  for (const std::size_t row : rows) {
    for (std::size_t k = 0; k < networks.size(); ++k) of_image[k] = (*networks[k])[row];
    residuals->push_back(FeatureExtractor::MeanResidual(of_image));
  }
  return x;
}

absl::StatusOr<RowMatrixF> ShardFeatures::Score(const Pipeline& pipeline, ThreadPool& pool,
                                                const Progress& progress) const {
  std::vector<std::size_t> all(labels_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  CKN_ASSIGN_OR_RETURN(RowMatrixF x, Read(all, pipeline.extractor(), pool, progress, nullptr));
  RowMatrixF margins(x.rows(), pipeline.class_count());
  std::vector<absl::Status> errors(all.size());
  pool.ParallelFor(all.size(), [&](std::size_t i, int) {
    const auto row = static_cast<Eigen::Index>(i);
    const absl::StatusOr<std::vector<float>> scores =
        pipeline.ScoreUnscaled({x.row(row).data(), static_cast<std::size_t>(pipeline.feature_count())});
    errors[i] = Annotate(scores.status(), absl::StrCat("image ", i));
    if (scores.ok()) std::ranges::copy(*scores, margins.row(row).begin());
  });
  for (const absl::Status& error : errors) CKN_RETURN_IF_ERROR(error);
  return margins;
}

}  // namespace ckn
