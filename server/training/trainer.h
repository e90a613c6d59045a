#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/thread_pool.h"
#include "server/store/model.h"
#include "server/training/dataset.h"
#include "server/training/layer_learner.h"
#include "server/training/model_selection.h"
#include "server/training/progress.h"
#include "server/training/recipe.h"

namespace ckn {

struct TrainerOptions {
  std::string model_name;       // empty: the recipe's name
  std::int64_t train_size = 0;  // images to use, an equal number a class; 0: all
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
absl::StatusOr<std::vector<std::size_t>> BalancedSubset(const Dataset& data, std::int64_t size, std::uint64_t seed);

// From images to a model: layers from the bottom up by Algorithm 1, features by Algorithm 2, then the classifier.
// test: where to measure the test error, or nullptr. The result depends on recipe, data, options and seed only.
absl::StatusOr<Model> Train(const v1::Recipe& recipe, const Dataset& train, const Dataset* test,
                            const TrainerOptions& options, ThreadPool& pool, const Progress& progress);

}  // namespace ckn
