// ckn refit: a new classifier on networks that are learned already.
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/cpu_quota.h"
#include "server/base/quote.h"
#include "server/base/status.h"
#include "server/base/thread_pool.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/commands/progress.h"
#include "server/commands/training_flags.h"
#include "server/image/decoder_versions.h"
#include "server/store/model_file.h"
#include "server/training/shard_features.h"
#include "server/training/trainer.h"

namespace ckn {
namespace {

struct RefitFlags {
  TrainingFlags training;
  std::vector<std::string> files, features, test_features;
};

// What the classifier is learned from, as images or as their features.
struct Source {
  std::optional<TrainingData> images;
  std::optional<ShardFeatures> train, test;  // if there are no images
};

absl::StatusOr<ShardFeatures> OpenShards(const RefitFlags& flags, const std::vector<std::string>& folders,
                                         std::span<const LoadedModel> models, Split split) {
  CKN_ASSIGN_OR_RETURN(ShardFeatures shards, ShardFeatures::Open(folders, models, split));
  if (const std::string& path = flags.training.class_names; !path.empty()) {
    CKN_RETURN_IF_ERROR(ReadClassNamesFrom(path, shards.labels()));
  }
  return shards;
}

absl::StatusOr<Source> OpenSource(const RefitFlags& flags, std::span<const LoadedModel> models, ThreadPool& pool,
                                  const Progress& progress) {
  Source source;
  if (flags.features.empty()) {
    const InputSpec& input = models.front().model.networks.front().input;
    CKN_ASSIGN_OR_RETURN(source.images, LoadTrainingData(flags.training, StretchSize(input), progress));
    return source;
  }
  CKN_ASSIGN_OR_RETURN(source.train, OpenShards(flags, flags.features, models, Split::kTrain));
  const DatasetLabels& labels = source.train->labels();
  progress.report(absl::StrCat(labels.title, ": features of ", labels.size(), " training images, ",
                               labels.class_names.size(), " classes"));
  if (flags.test_features.empty()) return source;
  CKN_ASSIGN_OR_RETURN(source.test, OpenShards(flags, flags.test_features, models, Split::kTest));
  if (const std::string& title = source.test->labels().title; title != labels.title) {
    return absl::FailedPreconditionError(absl::StrCat(flags.test_features.front(), ": data: got ", title, ", expected ",
                                                      labels.title, " as in ", flags.features.front()));
  }
  CKN_RETURN_IF_ERROR(source.test->Check(pool, progress));
  return source;
}

absl::StatusOr<Model> RefitFrom(const Source& source, std::vector<Network> networks, const TrainerOptions& options,
                                ThreadPool& pool, const Progress& progress) {
  if (source.images) {
    const std::optional<Dataset>& test = source.images->test;
    return Refit(std::move(networks), source.images->train, test ? &*test : nullptr, options, pool, progress);
  }
  return Refit(std::move(networks), *source.train, source.test ? &*source.test : nullptr, options, pool, progress);
}

absl::Status InterruptedError() { return absl::CancelledError("interrupted; nothing was written"); }

absl::Status RunRefit(const RefitFlags& flags) {
  const Progress progress = InteractiveProgress();
  CKN_RETURN_IF_ERROR(CheckModelOutput(flags.training.out));
  std::vector<LoadedModel> models;
  std::vector<std::string> names;
  for (const std::string& file : flags.files) {
    CKN_ASSIGN_OR_RETURN(LoadedModel loaded, ReadModelFile(file));
    for (Network& network : loaded.model.networks) {
      if (network.architecture.empty()) network.architecture = loaded.model.name;
    }
    if (!models.empty()) {
      const InputSpec& first = models.front().model.networks.front().input;
      CKN_RETURN_IF_ERROR(Annotate(CheckSameImages(first, loaded.model.networks.front().input), file));
    }
    names.push_back(loaded.model.name);
    models.push_back(std::move(loaded));
  }
  ThreadPool pool(flags.training.threads > 0 ? flags.training.threads : AvailableCpus());
  absl::StatusOr<Source> source = OpenSource(flags, models, pool, progress);
  if (absl::IsCancelled(source.status())) return InterruptedError();
  if (!source.ok()) return source.status();
  std::vector<Network> networks;
  for (LoadedModel& loaded : models) {
    std::move(loaded.model.networks.begin(), loaded.model.networks.end(), std::back_inserter(networks));
  }
  TrainerOptions options = flags.training.options;
  if (options.model_name.empty()) options.model_name = absl::StrJoin(names, "+");
  absl::StatusOr<Model> model = RefitFrom(*source, std::move(networks), options, pool, progress);
  if (absl::IsCancelled(model.status())) return InterruptedError();
  if (!model.ok()) return model.status();
  const bool encoded = source->train.has_value();
  model->provenance.set_program_version(CKN_VERSION);
  model->provenance.set_decoders(encoded ? source->train->decoders() : DecoderVersionsText());
  // The data by their name in both cases: it is of them that the model is made.
  const std::string& title = encoded ? source->train->labels().title : source->images->train.title;
  model->provenance.set_command(
      Printable(absl::StrCat("ckn refit ", absl::StrJoin(names, " "), DataOptionsText(flags.training, title),
                             ClassifierOptionsText(flags.training))));
  return WriteTrained(*model, flags.training.out);
}

// Throws CLI::ValidationError unless there is one folder for each file, or none at all.
void CheckFolderCount(const char* option, const std::vector<std::string>& folders,
                      const std::vector<std::string>& files) {
  if (folders.empty() || folders.size() == files.size()) return;
  throw CLI::ValidationError(option, absl::StrCat("got ", folders.size(), ", expected ", files.size(),
                                                  ": one for each model file, in their order"));
}

}  // namespace

void AddRefitCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<RefitFlags>();
  CLI::App* const command =
      app.add_subcommand("refit", "Learn only a classifier, on the networks of models that are there");
  command->footer(
      "Examples:\n"
      "  ckn refit models/mnist.ckn --data images:DIR --out digits.ckn      other data, other classes\n"
      "  ckn refit gm.ckn pm.ckn --data cifar10:DIR --out co.ckn            both networks side by side\n"
      "  ckn refit gm.ckn pm.ckn --features gm-train pm-train --out co.ckn  the same from features that are there\n"
      "The filters stay as they are: seconds instead of minutes. The new model has the classes of the data. With\n"
      "several files the classifier sees the features of all their networks, one behind the other.\n"
      "--features takes folders that ckn encode --unscaled --split train --shard I/N has written, on however many\n"
      "machines, one for each model file and in their order; no image is read. With those of --split test as\n"
      "--test-features the model file is the one that --data gives, byte for byte; without, it is that of "
      "--skip-test.");
  command->add_option("FILES", flags->files, "Model files")->type_name("FILE")->required();
  CLI::Option_group* const source = command->add_option_group("Source");
  AddDataOption(*source, flags->training.data);
  CLI::Option* const features =
      source->add_option("--features", flags->features, "Features of the training images")->type_name("FOLDER");
  source->require_option(1);
  CLI::Option* const test_features =
      command->add_option("--test-features", flags->test_features, "Features of the images to measure the error on")
          ->type_name("FOLDER")
          ->needs(features);
  AddTrainingOptions(*command, flags->training);
  command->get_option("--skip-test")->excludes(test_features);
  AddClassifierOptions(*command, flags->training);
  command->callback([flags, &exit_code] {
    ResolveTrainingOptions(flags->training);
    CheckFolderCount("--features", flags->features, flags->files);
    CheckFolderCount("--test-features", flags->test_features, flags->files);
    exit_code = ExitCode("refit", RunRefit(*flags));
  });
}

}  // namespace ckn
