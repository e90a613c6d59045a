// ckn train: from a data set to a model file.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/base/atomic_file.h"
#include "server/base/quote.h"
#include "server/base/status.h"
#include "server/base/thread_pool.h"
#include "server/ckn/layer.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/commands/progress.h"
#include "server/store/model_file.h"
#include "server/training/dataset.h"
#include "server/training/recipe.h"
#include "server/training/trainer.h"

namespace ckn {
namespace {

struct TrainArguments {
  std::string arch, recipe, data, class_names, out, init = "kmeans", method = "problem4";
  int threads = 0;
  bool skip_test = false;
  TrainerOptions options;
};

// The options that change the result, as one would type them; part of the model's provenance.
std::string CommandLine(const TrainArguments& args, const std::string& dataset_title) {
  const TrainerOptions& options = args.options;
  const TrainerOptions defaults;
  std::string line =
      absl::StrCat("ckn train ", args.arch.empty() ? "--recipe " : "--arch ",
                   args.arch.empty() ? std::filesystem::path(args.recipe).filename().string() : args.arch, " --data ",
                   dataset_title);
  if (!options.model_name.empty()) absl::StrAppend(&line, " --name ", options.model_name);
  if (!args.class_names.empty()) {
    absl::StrAppend(&line, " --class-names ", std::filesystem::path(args.class_names).filename().string());
  }
  if (options.fold >= 0) absl::StrAppend(&line, " --fold ", options.fold);
  if (options.train_size > 0) absl::StrAppend(&line, " --train-size ", options.train_size);
  absl::StrAppend(&line, " --seed ", options.seed, " --pairs ", options.learning.pairs, " --iterations ",
                  options.learning.iterations);
  if (args.method != "problem4") absl::StrAppend(&line, " --method ", args.method);
  if (args.init != "kmeans") absl::StrAppend(&line, " --init ", args.init);
  if (options.held_out >= 0) absl::StrAppend(&line, " --validation-size ", options.held_out);
  if (options.folds != defaults.folds) absl::StrAppend(&line, " --folds ", options.folds);
  if (options.c_log2_min != defaults.c_log2_min) absl::StrAppend(&line, " --c-min ", options.c_log2_min);
  if (options.c_log2_max != defaults.c_log2_max) absl::StrAppend(&line, " --c-max ", options.c_log2_max);
  return line;
}

absl::Status RunTrain(const TrainArguments& args) {
  const Progress progress = InteractiveProgress();

  // Found out now rather than after hours of work.
  CKN_RETURN_IF_ERROR(AtomicFile::Create(args.out).status());
  const std::string checkpoint = args.out + ".checkpoint";
  if (std::error_code ignored; !args.options.resume && std::filesystem::exists(checkpoint, ignored)) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint, ": left by an interrupted run; --resume continues it, delete it to start anew"));
  }

  CKN_ASSIGN_OR_RETURN(v1::Recipe recipe, args.arch.empty() ? ReadRecipeFile(args.recipe) : BuiltInRecipe(args.arch));
  if (recipe.name().empty()) recipe.set_name(Printable(std::filesystem::path(args.recipe).stem().native()));

  const v1::InputSpec& input = recipe.parts_size() > 0 ? recipe.parts(0).input() : recipe.input();
  std::optional<ImageSize> stretch;
  if (input.resize() == v1::RESIZE_POLICY_STRETCH && input.height() > 0 && input.width() > 0) {
    stretch = ImageSize{input.height(), input.width()};
  }
  CKN_ASSIGN_OR_RETURN(Dataset train, LoadDataset(args.data, Split::kTrain, stretch));
  if (!args.class_names.empty()) CKN_RETURN_IF_ERROR(ReadClassNamesFrom(args.class_names, train));
  progress.report(absl::StrCat(train.title, ": ", train.size(), " training images ", train.height, "x", train.width,
                               "x", train.channels, ", ", train.class_names.size(), " classes"));
  std::unique_ptr<Dataset> test;
  if (!args.skip_test && HasSplit(args.data, Split::kTest)) {
    CKN_ASSIGN_OR_RETURN(Dataset loaded, LoadDataset(args.data, Split::kTest, stretch));
    if (!args.class_names.empty()) CKN_RETURN_IF_ERROR(ReadClassNamesFrom(args.class_names, loaded));
    test = std::make_unique<Dataset>(std::move(loaded));
  }

  ThreadPool pool(args.threads > 0 ? args.threads : AvailableCpus());
  TrainerOptions options = args.options;
  options.learning.init = args.init == "random" ? FilterInit::kRandom : FilterInit::kKMeans;
  options.learning.method = args.method == "nystrom" ? LearningMethod::kNystrom : LearningMethod::kProblem4;
  options.checkpoint_path = checkpoint;
  absl::StatusOr<Model> model = Train(recipe, train, test.get(), options, pool, progress);
  if (absl::IsCancelled(model.status())) {
    return absl::CancelledError(
        std::filesystem::exists(options.checkpoint_path)
            ? absl::StrCat("interrupted; the same command with --resume continues from ", options.checkpoint_path)
            : "interrupted before anything was learned");
  }
  if (!model.ok()) return model.status();
  model->provenance.set_program_version(CKN_VERSION);
  model->provenance.set_command(Printable(CommandLine(args, train.title)));
  CKN_RETURN_IF_ERROR(WriteModelFile(*model, args.out));
  std::error_code ignored;
  std::filesystem::remove(options.checkpoint_path, ignored);

  const v1::Provenance& provenance = model->provenance;
  std::printf("%s: %s, %d parameters, %d features, C = %g", args.out.c_str(), model->name.c_str(),
              static_cast<int>(ParameterCount(*model)), model->svm.features(), provenance.svm_c());
  if (provenance.validation_curve_size() > 0) {
    std::printf(", validation error %.2f %%", provenance.validation_error_percent());
  }
  if (provenance.has_test_error_percent()) std::printf(", test error %.2f %%", provenance.test_error_percent());
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace

void AddTrainCommand(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<TrainArguments>();
  TrainerOptions& options = args->options;
  CLI::App* command = app.add_subcommand("train", "Learn a network and its classifier from a data set");
  command->footer(
      "Example:\n"
      "  ckn train --arch ckn-gm1 --data mnist:DIR --out mnist.ckn\n"
      "Progress goes to standard error, one line with the result to standard output. Ctrl-C stops at the next\n"
      "iteration and keeps FILE.checkpoint, from which --resume continues.\n"
      "The same data, seed and options give the same model file, byte for byte.");

  CLI::Option_group* network = command->add_option_group("Network");
  network->add_option("--arch", args->arch, "Architecture of the paper's table 3, or combination of table 2")
      ->check(CLI::IsMember(BuiltInRecipeNames()));
  network->add_option("--recipe", args->recipe, "Any other architecture: a ckn.v1.Recipe in Protobuf text format")
      ->type_name("FILE");
  network->require_option(1);

  AddDataOption(*command, args->data)->required();
  command->add_option("--out", args->out, "Model file to write")->type_name("FILE")->required();
  command->add_option("--name", options.model_name, "Name of the model in the server; default: the architecture's")
      ->type_name("NAME");
  command->add_option("--class-names", args->class_names, "Text file with one class name a line, for labels 0, 1, ...")
      ->type_name("FILE");
  CLI::Option* const train_size =
      command->add_option("--train-size", options.train_size, "Use N training images, an equal number a class; 0: all")
          ->check(AtLeast(0))
          ->capture_default_str()
          ->type_name("N");
  command->add_option("--fold", options.fold, "Use fold K of those that the data set predefines (STL-10), from 0")
      ->check(AtLeast(0))
      ->excludes(train_size)
      ->type_name("K");
  command->add_flag("--skip-test", args->skip_test, "Do not measure the error on the data's test split");
  command->add_option("--seed", options.seed, "Seed of all random choices")->capture_default_str()->type_name("S");
  AddThreadsOption(*command, args->threads);
  command->add_flag("--resume", options.resume, "Continue from FILE.checkpoint if it is there");

  CLI::Option_group* learning = command->add_option_group("Learning of the filters");
  learning->add_option("--pairs", options.learning.pairs, "Pairs of patches for each layer")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000'000}))
      ->capture_default_str()
      ->type_name("N");
  learning->add_option("--iterations", options.learning.iterations, "L-BFGS-B iterations for each layer, at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->type_name("N");
  learning
      ->add_option("--method", args->method,
                   "problem4: the paper's, by L-BFGS-B; nystrom: spherical k-means and a projection, in seconds")
      ->check(CLI::IsMember({"problem4", "nystrom"}))
      ->capture_default_str();
  learning->add_option("--init", args->init, "Filters to start from")
      ->check(CLI::IsMember({"kmeans", "random"}))
      ->capture_default_str();

  CLI::Option_group* classifier = command->add_option_group("Classifier (one-vs-rest linear SVM, squared hinge loss)");
  classifier
      ->add_option("--validation-size", options.held_out,
                   "Choose C on the last N images of the classes' shares; 0: by cross-validation; default: 10000 from "
                   "20000 training images on, else 0")
      ->check(AtLeast(0))
      ->type_name("N");
  classifier->add_option("--folds", options.folds, "Folds of the cross-validation")
      ->check(CLI::Range(2, 100))
      ->capture_default_str()
      ->type_name("K");
  classifier->add_option("--c-min", options.c_log2_min, "The grid for C starts at 2^I")
      ->check(CLI::Range(-30, 30))
      ->capture_default_str()
      ->type_name("I");
  classifier->add_option("--c-max", options.c_log2_max, "and ends at 2^I; the same I for both fixes C")
      ->check(CLI::Range(-30, 30))
      ->capture_default_str()
      ->type_name("I");

  command->callback([args, &exit_code] {
    if (args->options.c_log2_min > args->options.c_log2_max) {
      throw CLI::ValidationError("--c-min", absl::StrCat("got ", args->options.c_log2_min,
                                                         ", expected at most --c-max, ", args->options.c_log2_max));
    }
    exit_code = ExitCode("train", RunTrain(*args));
  });
}

}  // namespace ckn
