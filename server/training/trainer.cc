#include "server/training/trainer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/status.h"
#include "server/feature_extractor.h"
#include "server/novelty.h"
#include "server/pipeline.h"
#include "server/store/model_proto.h"
#include "server/training/checkpoint.h"
#include "server/training/features.h"
#include "server/training/network_learner.h"
#include "server/training/random.h"
#include "server/training/stochastic_learner.h"

namespace ckn {
namespace {

constexpr std::uint64_t kSubsetStream = 5'000'000;
// From this training size on, C is chosen on held-out images instead of by cross-validation (the paper's section 4).
constexpr std::size_t kHoldOutFrom = 20'000;
constexpr std::int64_t kHoldOutSize = 10'000;

// Everything that the learned layers depend on.
std::string CheckpointKey(const v1::Recipe& recipe, const std::string& dataset_sha256, const TrainerOptions& options) {
  return absl::StrCat("recipe {", recipe.ShortDebugString(), "} data ", dataset_sha256, " train_size ",
                      options.train_size, " seed ", options.seed, " pairs ", options.learning.pairs, " iterations ",
                      options.learning.iterations, " init ",
                      options.learning.init == FilterInit::kKMeans ? "kmeans" : "random",
                      options.learning.method == LearningMethod::kNystrom      ? " nystrom"
                      : options.learning.method == LearningMethod::kStochastic ? " stochastic"
                                                                               : "",
                      options.fold >= 0 ? absl::StrCat(" fold ", options.fold) : "");
}

// Each class needs images to be learned from in every part of the plan.
absl::Status CheckValidation(const ValidationPlan& plan, std::span<const int> labels,
                             const std::vector<std::string>& class_names) {
  if (std::cmp_greater_equal(plan.held_out, labels.size())) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "validation size: got %d, expected fewer than the %d training images", plan.held_out, labels.size()));
  }
  std::vector<std::int64_t> to_fit(class_names.size());
  const std::vector<std::size_t> order =
      OrderForHoldOut(labels, static_cast<int>(class_names.size()), static_cast<std::size_t>(plan.held_out));
  for (std::size_t i = 0; i + static_cast<std::size_t>(plan.held_out) < order.size(); ++i) ++to_fit[labels[order[i]]];
  const bool folds = plan.held_out == 0 && plan.c_grid.size() > 1;
  const int needed = folds ? plan.folds : 1;
  const auto smallest = std::min_element(to_fit.begin(), to_fit.end());
  if (*smallest >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("class \"%s\": %d of the %d training images%s, expected at least %d",
                      class_names[smallest - to_fit.begin()], *smallest, labels.size(),
                      folds               ? absl::StrFormat(" for %d-fold cross-validation", plan.folds)
                      : plan.held_out > 0 ? absl::StrFormat(" left when %d are held out for validation", plan.held_out)
                                          : "",
                      needed));
}

absl::StatusOr<double> TestErrorPercent(const Model& model, const LabelledFeatures& test, ThreadPool& pool,
                                        const Progress& progress) {
  const std::vector<int>& labels = test.labels().labels;
  CKN_ASSIGN_OR_RETURN(const std::vector<int> classes, MatchClasses(test.labels(), model.class_names));
  CKN_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Create(model));
  CKN_ASSIGN_OR_RETURN(const RowMatrixF scores, test.Score(pipeline, pool, progress));
  const std::vector<int> predicted = PredictedClasses(scores);
  std::int64_t errors = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) errors += predicted[i] != classes[labels[i]] ? 1 : 0;
  return 100.0 * static_cast<double>(errors) / static_cast<double>(labels.size());
}

std::optional<ImageFeatures> OfImages(const Dataset* data) {
  if (data == nullptr) return std::nullopt;
  return ImageFeatures(*data);
}

// A model that has no networks yet, and what to make it from.
struct Draft {
  Model model;
  TrainingSelection selection;
};

// Whatever would make the work useless is found out here, before it.
absl::StatusOr<Draft> Begin(const std::string& architecture, const LabelledFeatures& train,
                            const LabelledFeatures* test, const TrainerOptions& options) {
  Draft draft;
  Model& model = draft.model;
  model.name = options.model_name.empty() ? architecture : options.model_name;
  model.class_names = train.labels().class_names;
  CKN_RETURN_IF_ERROR(ValidateNames(model.name, model.class_names));
  if (test != nullptr) {
    CKN_RETURN_IF_ERROR(Annotate(MatchClasses(test->labels(), model.class_names).status(), "test split"));
  }
  CKN_ASSIGN_OR_RETURN(draft.selection, SelectImages(train.labels(), options));
  model.provenance.set_architecture(architecture);
  model.provenance.set_dataset(train.labels().title);
  model.provenance.set_dataset_sha256(train.sha256());
  return draft;
}

// Features and classifier for the networks of the draft.
absl::StatusOr<Model> Finish(Draft draft, const LabelledFeatures& train, const LabelledFeatures* test,
                             const TrainerOptions& options, ThreadPool& pool, const Progress& progress) {
  Model& model = draft.model;
  const TrainingSelection& selection = draft.selection;
  FeatureExtractor extractor;
  for (const Network& network : model.networks) CKN_RETURN_IF_ERROR(extractor.Add(network.input, network.layers));
  {
    std::vector<float> residuals;
    CKN_ASSIGN_OR_RETURN(RowMatrixF features, train.Read(selection.rows, extractor, pool, progress,
                                                         extractor.has_residual() ? &residuals : nullptr));
    if (!residuals.empty()) model.residual_quantiles = ResidualQuantiles(std::move(residuals));
    CKN_RETURN_IF_ERROR(
        TrainClassifier(selection, features, extractor.feature_counts(), options, model, pool, progress));
  }
  if (test != nullptr) {
    const absl::StatusOr<double> error = TestErrorPercent(model, *test, pool, progress);
    CKN_RETURN_IF_ERROR(Annotate(error.status(), "test split"));
    model.provenance.set_test_error_percent(*error);
    model.provenance.set_test_count(static_cast<std::int64_t>(test->labels().size()));
    progress.report(absl::StrFormat("test error %.2f %% of %d images", *error, test->labels().size()));
  }
  return std::move(draft.model);
}

}  // namespace

absl::StatusOr<std::vector<std::size_t>> BalancedSubset(const DatasetLabels& data, std::int64_t size,
                                                        std::uint64_t seed) {
  if (size < 0 || static_cast<std::size_t>(size) > data.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("training size: got %d, expected at most the %d images of the data set", size, data.size()));
  }
  std::vector<std::size_t> all(data.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (size == 0 || static_cast<std::size_t>(size) == data.size()) return all;

  std::vector<std::vector<std::size_t>> by_class(data.class_names.size());
  for (const std::size_t i : all) by_class[data.labels[i]].push_back(i);
  Rng rng = MakeRng(seed, kSubsetStream);
  for (std::vector<std::size_t>& rows : by_class) Shuffle(rng, rows);
  // Round after round, one of each class that has any left.
  std::vector<std::size_t> chosen;
  for (std::size_t round = 0; chosen.size() < static_cast<std::size_t>(size); ++round) {
    for (const std::vector<std::size_t>& rows : by_class) {
      if (round < rows.size() && chosen.size() < static_cast<std::size_t>(size)) chosen.push_back(rows[round]);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

absl::StatusOr<TrainingSelection> SelectImages(const DatasetLabels& train, const TrainerOptions& options) {
  std::vector<std::size_t> subset;
  if (options.fold >= 0) {
    if (std::cmp_greater_equal(options.fold, train.folds.size())) {
      return absl::InvalidArgumentError(
          train.folds.empty()
              ? absl::StrFormat("fold: got %d, but the data set has none", options.fold)
              : absl::StrFormat("fold: got %d, expected 0 to %d", options.fold, train.folds.size() - 1));
    }
    subset = train.folds[static_cast<std::size_t>(options.fold)];
  } else {
    CKN_ASSIGN_OR_RETURN(subset, BalancedSubset(train, options.train_size, options.seed));
  }
  std::vector<int> labels(subset.size());
  for (std::size_t i = 0; i < subset.size(); ++i) labels[i] = train.labels[subset[i]];

  TrainingSelection selection;
  ValidationPlan& validation = selection.validation;
  validation.folds = options.folds;
  for (int i = options.c_log2_min; i <= options.c_log2_max; ++i) validation.c_grid.push_back(std::exp2(i));
  validation.held_out = options.held_out >= 0 ? options.held_out : subset.size() >= kHoldOutFrom ? kHoldOutSize : 0;
  CKN_RETURN_IF_ERROR(CheckValidation(validation, labels, train.class_names));

  const std::vector<std::size_t> order = OrderForHoldOut(labels, static_cast<int>(train.class_names.size()),
                                                         static_cast<std::size_t>(validation.held_out));
  for (const std::size_t i : order) {
    selection.rows.push_back(subset[i]);
    selection.labels.push_back(labels[i]);
  }
  return selection;
}

absl::Status TrainClassifier(const TrainingSelection& selection, RowMatrixF& features,
                             std::span<const int> feature_counts, const TrainerOptions& options, Model& model,
                             ThreadPool& pool, const Progress& progress) {
  const ValidationPlan& validation = selection.validation;
  CKN_ASSIGN_OR_RETURN(
      TrainedClassifier classifier,
      SelectAndTrain(features, feature_counts, selection.labels, static_cast<int>(model.class_names.size()), validation,
                     options.svm, options.seed, pool, WithPrefix(progress, "classifier: ")));
  for (std::size_t i = 0; i < model.networks.size(); ++i) {
    model.networks[i].standardization = std::move(classifier.standardizations[i]);
  }
  model.svm = std::move(classifier.svm);

  v1::Provenance& provenance = model.provenance;
  provenance.set_train_count(static_cast<std::int64_t>(selection.rows.size()));
  provenance.set_seed(options.seed);
  provenance.set_svm_c(classifier.c);
  if (classifier.curve_error_percent.empty()) return absl::OkStatus();
  provenance.set_validation(validation.held_out > 0 ? absl::StrFormat("%d images held out", validation.held_out)
                                                    : absl::StrFormat("%d-fold cross-validation", options.folds));
  provenance.set_validation_error_percent(classifier.validation_error_percent);
  for (std::size_t i = 0; i < classifier.curve_error_percent.size(); ++i) {
    v1::ValidationPoint* point = provenance.add_validation_curve();
    point->set_svm_c(validation.c_grid[i]);
    point->set_error_percent(classifier.curve_error_percent[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<Model> Train(const v1::Recipe& recipe, const Dataset& train, const Dataset* test,
                            const TrainerOptions& options, ThreadPool& pool, const Progress& progress) {
  CKN_ASSIGN_OR_RETURN(const std::vector<NetworkPlan> plans,
                       ResolveRecipes(recipe, train.height, train.width, train.channels));
  if (options.learning.method == LearningMethod::kStochastic && options.learning.pairs < kStochasticBatch) {
    return absl::InvalidArgumentError(absl::StrFormat("pairs: got %d, expected at least %d for stochastic gradients",
                                                      options.learning.pairs, kStochasticBatch));
  }
  const ImageFeatures of_train(train);
  const std::optional<ImageFeatures> of_test = OfImages(test);
  const ImageFeatures* const test_features = of_test ? &*of_test : nullptr;
  CKN_ASSIGN_OR_RETURN(Draft draft, Begin(recipe.name(), of_train, test_features, options));

  LayerJournal journal;
  if (!options.checkpoint_path.empty()) {
    const std::string key = CheckpointKey(recipe, draft.model.provenance.dataset_sha256(), options);
    CKN_ASSIGN_OR_RETURN(journal, LayerJournal::Open(options.checkpoint_path, key, options.resume));
    if (options.resume) {
      progress.report(absl::StrFormat("%s: %d finished layers", options.checkpoint_path, journal.finished_before()));
    }
  }
  std::vector<std::size_t> ascending = draft.selection.rows;
  std::sort(ascending.begin(), ascending.end());
  for (const NetworkPlan& plan : plans) {
    const Progress part = plans.size() == 1 ? progress : WithPrefix(progress, absl::StrCat(plan.name, ": "));
    CKN_ASSIGN_OR_RETURN(Network network,
                         LearnNetwork(plan, train, ascending, options.learning, options.seed, journal, pool, part));
    draft.model.networks.push_back(std::move(network));
  }
  return Finish(std::move(draft), of_train, test_features, options, pool, progress);
}

absl::StatusOr<Model> Refit(std::vector<Network> networks, const LabelledFeatures& train, const LabelledFeatures* test,
                            const TrainerOptions& options, ThreadPool& pool, const Progress& progress) {
  constexpr ModelLimits kLimits;
  if (networks.empty() || std::cmp_greater(networks.size(), kLimits.max_networks)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("networks: got %d, expected 1 to %d", networks.size(), kLimits.max_networks));
  }
  std::vector<std::string> names;
  std::int64_t features = 0;
  for (const Network& network : networks) {
    names.push_back(network.architecture);
    CKN_RETURN_IF_ERROR(Annotate(CheckSameImages(networks.front().input, network.input), network.architecture));
    features += network.standardization.mean.size();
  }
  if (features > kLimits.max_features) {
    return absl::InvalidArgumentError(
        absl::StrFormat("networks: got %d features in all, expected at most %d", features, kLimits.max_features));
  }
  CKN_ASSIGN_OR_RETURN(Draft draft, Begin(absl::StrJoin(names, "+"), train, test, options));
  draft.model.networks = std::move(networks);
  return Finish(std::move(draft), train, test, options, pool, progress);
}

absl::StatusOr<Model> Refit(std::vector<Network> networks, const Dataset& train, const Dataset* test,
                            const TrainerOptions& options, ThreadPool& pool, const Progress& progress) {
  for (const Network& network : networks) {
    const InputSpec& input = network.input;
    if (input.resize == ResizePolicy::kReject && (input.height != train.height || input.width != train.width)) {
      return absl::InvalidArgumentError(absl::StrFormat("the networks take images of %dx%d, the data have %dx%d",
                                                        input.height, input.width, train.height, train.width));
    }
  }
  const std::optional<ImageFeatures> of_test = OfImages(test);
  return Refit(std::move(networks), ImageFeatures(train), of_test ? &*of_test : nullptr, options, pool, progress);
}

}  // namespace ckn
