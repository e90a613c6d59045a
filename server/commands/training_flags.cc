#include "server/commands/training_flags.h"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/atomic_file.h"
#include "server/base/status.h"
#include "server/commands/common.h"
#include "server/store/model_file.h"
#include "server/training/dataset.h"

namespace ckn {

void AddTrainingOptions(CLI::App& command, TrainingFlags& flags) {
  TrainerOptions& options = flags.options;
  command.add_option("--out", flags.out, "Model file to write")->type_name("FILE")->required();
  command
      .add_option("--name", options.model_name,
                  "Name of the model in the server; default: the architecture's, or those of the models")
      ->type_name("NAME");
  command.add_option("--class-names", flags.class_names, "Text file with one class name a line, for labels 0, 1, ...")
      ->type_name("FILE");
  CLI::Option* const train_size =
      command.add_option("--train-size", options.train_size, "Use N training images, an equal number a class; 0: all")
          ->check(AtLeast(0))
          ->capture_default_str()
          ->type_name("N");
  command.add_option("--fold", options.fold, "Use fold K of those that the data set predefines (STL-10), from 0")
      ->check(AtLeast(0))
      ->excludes(train_size)
      ->type_name("K");
  command.add_flag("--skip-test", flags.skip_test, "Do not measure the error on the data's test split");
  command.add_option("--seed", options.seed, "Seed of all random choices")->capture_default_str()->type_name("S");
  AddThreadsOption(command, flags.threads);
}

void AddClassifierOptions(CLI::App& command, TrainingFlags& flags) {
  TrainerOptions& options = flags.options;
  CLI::Option_group* const classifier =
      command.add_option_group("Classifier (one-vs-rest linear SVM, squared hinge loss)");
  classifier
      ->add_option("--validation-size", options.held_out,
                   "Choose C on the last N images of the classes' shares; 0: by cross-validation; default: 10000 from "
                   "20000 training images on, else 0")
      ->check(AtLeast(0))
      ->type_name("N");
  classifier
      ->add_option("--folds", flags.folds,
                   absl::StrCat("Choose C by cross-validation with K folds; default: ", options.folds,
                                " where --validation-size is 0"))
      ->check(CLI::Range(2, 100))
      ->type_name("K");
  classifier->add_option("--c-min", options.c_log2_min, "The grid for C starts at 2^I")
      ->check(CLI::Range(-30, 30))
      ->capture_default_str()
      ->type_name("I");
  classifier->add_option("--c-max", options.c_log2_max, "and ends at 2^I; the same I for both fixes C")
      ->check(CLI::Range(-30, 30))
      ->capture_default_str()
      ->type_name("I");
}

void ResolveTrainingOptions(TrainingFlags& flags) {
  TrainerOptions& options = flags.options;
  if (options.c_log2_min > options.c_log2_max) {
    throw CLI::ValidationError(
        "--c-min", absl::StrCat("got ", options.c_log2_min, ", expected at most --c-max, ", options.c_log2_max));
  }
  if (options.c_log2_min == options.c_log2_max && (options.held_out > 0 || flags.folds)) {
    throw CLI::ValidationError(
        flags.folds ? "--folds" : "--validation-size",
        absl::StrCat("got ", flags.folds ? *flags.folds : options.held_out, ", but --c-min ", options.c_log2_min,
                     " and --c-max ", options.c_log2_max, " leave nothing to validate"));
  }
  if (!flags.folds) return;
  if (options.held_out > 0) {
    throw CLI::ValidationError("--folds", absl::StrCat("got ", *flags.folds, ", but --validation-size ",
                                                       options.held_out, " asks for no cross-validation"));
  }
  options.held_out = 0;
  options.folds = *flags.folds;
}

absl::StatusOr<TrainingData> LoadTrainingData(const TrainingFlags& flags, std::optional<ImageSize> stretch,
                                              const Progress& progress) {
  TrainingData data;
  CKN_ASSIGN_OR_RETURN(data.train, LoadDataset(flags.data, Split::kTrain, stretch));
  Dataset& train = data.train;
  if (!flags.class_names.empty()) CKN_RETURN_IF_ERROR(ReadClassNamesFrom(flags.class_names, train));
  progress.report(absl::StrCat(train.title, ": ", train.size(), " training images ", train.height, "x", train.width,
                               "x", train.channels, ", ", train.class_names.size(), " classes"));
  if (flags.skip_test || !HasSplit(flags.data, Split::kTest)) return data;
  CKN_ASSIGN_OR_RETURN(data.test, LoadDataset(flags.data, Split::kTest, stretch));
  if (!flags.class_names.empty()) CKN_RETURN_IF_ERROR(ReadClassNamesFrom(flags.class_names, *data.test));
  return data;
}

std::string DataOptionsText(const TrainingFlags& flags, const std::string& dataset_title) {
  const TrainerOptions& options = flags.options;
  std::string line = absl::StrCat(" --data ", dataset_title);
  if (!options.model_name.empty()) absl::StrAppend(&line, " --name ", options.model_name);
  if (!flags.class_names.empty()) {
    absl::StrAppend(&line, " --class-names ", std::filesystem::path(flags.class_names).filename().string());
  }
  if (options.fold >= 0) absl::StrAppend(&line, " --fold ", options.fold);
  if (options.train_size > 0) absl::StrAppend(&line, " --train-size ", options.train_size);
  absl::StrAppend(&line, " --seed ", options.seed);
  return line;
}

std::string ClassifierOptionsText(const TrainingFlags& flags) {
  const TrainerOptions& options = flags.options;
  const TrainerOptions defaults;
  std::string line;
  if (options.held_out >= 0) absl::StrAppend(&line, " --validation-size ", options.held_out);
  if (options.folds != defaults.folds) absl::StrAppend(&line, " --folds ", options.folds);
  if (options.c_log2_min != defaults.c_log2_min) absl::StrAppend(&line, " --c-min ", options.c_log2_min);
  if (options.c_log2_max != defaults.c_log2_max) absl::StrAppend(&line, " --c-max ", options.c_log2_max);
  return line;
}

absl::Status CheckModelOutput(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) > 0 &&
      !LooksLikeModelFile(path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is there already and is no model file; not replaced"));
  }
  return AtomicFile::Create(path).status();
}

absl::Status WriteTrained(const Model& model, const std::string& path) {
  CKN_RETURN_IF_ERROR(WriteModelFile(model, path));
  const v1::Provenance& provenance = model.provenance;
  std::printf("%s: %s, %d parameters, %d features, C = %g", path.c_str(), model.name.c_str(),
              static_cast<int>(ParameterCount(model)), model.svm.features(), provenance.svm_c());
  if (provenance.validation_curve_size() > 0) {
    std::printf(", validation error %.2f %%", provenance.validation_error_percent());
  }
  if (provenance.has_test_error_percent()) std::printf(", test error %.2f %%", provenance.test_error_percent());
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace ckn
