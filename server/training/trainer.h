#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/thread_pool.h"
#include "server/store/model.h"
#include "server/training/dataset.h"
#include "server/training/labelled_features.h"
#include "server/training/layer_learner.h"
#include "server/training/model_selection.h"
#include "server/training/progress.h"
#include "server/training/recipe.h"

namespace ckn {

struct TrainerOptions {
  std::string model_name;       // empty: the recipe's name, or those of the networks
  std::int64_t train_size = 0;  // images to use, an equal number a class; 0: all
  int fold = -1;                // or the images of this one of the data set's folds
  std::uint64_t seed = 1;
  LearningOptions learning;
  // Images held out to choose C. Negative: 10,000 from 20,000 training images on, else 5-fold cross-validation.
  std::int64_t held_out = -1;
  int folds = 5;
  int c_log2_min = -15;
  int c_log2_max = 15;
  SvmOptions svm;
  std::string checkpoint_path;  // empty: none
  bool resume = false;          // continue from checkpoint_path if it is there
};

// Indices of a random subset with an equal number of images a class (the first classes get one more when it does not
// divide; a class that has too few gives what it has, and the others more), ascending.
// INVALID_ARGUMENT when there are not that many images.
absl::StatusOr<std::vector<std::size_t>> BalancedSubset(const DatasetLabels& data, std::int64_t size,
                                                        std::uint64_t seed);

// The images a classifier is learned from.
struct TrainingSelection {
  std::vector<std::size_t> rows;  // indices into the data set, those held out for validation last
  std::vector<int> labels;        // [rows.size()]
  ValidationPlan validation;
};

// By train_size or fold, seed, held_out, folds and the grid of C. INVALID_ARGUMENT when a class would be left without
// images.
absl::StatusOr<TrainingSelection> SelectImages(const DatasetLabels& train, const TrainerOptions& options);

// Chooses C and trains the classifier of `model`, whose networks and classes are set; fills their standardisation, the
// SVM and what the provenance says of them. features [rows][features + 1] of the selection, `feature_counts` of each
// network, are standardised in place.
absl::Status TrainClassifier(const TrainingSelection& selection, RowMatrixF& features,
                             std::span<const int> feature_counts, const TrainerOptions& options, Model& model,
                             ThreadPool& pool, const Progress& progress);

// From images to a model: layers from the bottom up by Algorithm 1, features by Algorithm 2, then the classifier.
// test: where to measure the test error, or nullptr. The result depends on recipe, data, options and seed only.
absl::StatusOr<Model> Train(const v1::Recipe& recipe, const Dataset& train, const Dataset* test,
                            const TrainerOptions& options, ThreadPool& pool, const Progress& progress);

// The same with networks that are learned already, on whatever data: only their standardisation and the classifier are
// new. INVALID_ARGUMENT when the networks do not take the same images, or not the data's. The features must be those
// that the networks give.
absl::StatusOr<Model> Refit(std::vector<Network> networks, const LabelledFeatures& train, const LabelledFeatures* test,
                            const TrainerOptions& options, ThreadPool& pool, const Progress& progress);
absl::StatusOr<Model> Refit(std::vector<Network> networks, const Dataset& train, const Dataset* test,
                            const TrainerOptions& options, ThreadPool& pool, const Progress& progress);

}  // namespace ckn
