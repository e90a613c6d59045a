#pragma once

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/training/trainer.h"

// What the commands that make models share.
namespace ckn {

struct TrainingFlags {
  std::string data, class_names, out;
  int threads = 0;
  bool skip_test = false;
  std::optional<int> folds;
  TrainerOptions options;
};

// Output and what concerns the whole run, except the data.
void AddTrainingOptions(CLI::App& command, TrainingFlags& flags);
// How C is chosen.
void AddClassifierOptions(CLI::App& command, TrainingFlags& flags);
// Completes `flags.options`. Throws CLI::ValidationError when options contradict each other.
void ResolveTrainingOptions(TrainingFlags& flags);

struct TrainingData {
  Dataset train;
  std::optional<Dataset> test;  // if there is one, and it is wanted
};

absl::StatusOr<TrainingData> LoadTrainingData(const TrainingFlags& flags, std::optional<ImageSize> stretch,
                                              const Progress& progress);

// The options that change the result and are not their defaults, as one would type them; part of a model's provenance.
std::string DataOptionsText(const TrainingFlags& flags, const std::string& dataset_title);
std::string ClassifierOptionsText(const TrainingFlags& flags);

// INVALID_ARGUMENT when `path` is a file that is no model file: it may be a recipe or an image that is read. The codes
// of AtomicFile::Create when nothing can be written there.
absl::Status CheckModelOutput(const std::string& path);

// Writes the model and prints one line about it on stdout.
absl::Status WriteTrained(const Model& model, const std::string& path);

}  // namespace ckn
