// ckn train: from a data set to a model file.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/base/cpu_quota.h"
#include "server/base/quote.h"
#include "server/base/status.h"
#include "server/base/thread_pool.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/commands/progress.h"
#include "server/commands/training_flags.h"
#include "server/image/decoder_versions.h"
#include "server/training/recipe.h"
#include "server/training/trainer.h"

namespace ckn {
namespace {

struct TrainFlags {
  TrainingFlags training;
  std::string arch, recipe, init = "kmeans", method = "problem4";
};

// As one would type it, without the folders; part of the model's provenance.
std::string CommandLine(const TrainFlags& flags, const std::string& dataset_title) {
  const LearningOptions& learning = flags.training.options.learning;
  std::string line =
      absl::StrCat("ckn train ", flags.arch.empty() ? "--recipe " : "--arch ",
                   flags.arch.empty() ? std::filesystem::path(flags.recipe).filename().string() : flags.arch,
                   DataOptionsText(flags.training, dataset_title), " --pairs ", learning.pairs, " --iterations ",
                   learning.iterations);
  if (flags.method != "problem4") absl::StrAppend(&line, " --method ", flags.method);
  if (flags.init != "kmeans") absl::StrAppend(&line, " --init ", flags.init);
  return line + ClassifierOptionsText(flags.training);
}

absl::Status RunTrain(const TrainFlags& flags) {
  const Progress progress = InteractiveProgress();
  const std::string& out = flags.training.out;

  // Found out now rather than after hours of work.
  CKN_RETURN_IF_ERROR(CheckModelOutput(out));
  const std::string checkpoint = out + ".checkpoint";
  if (std::error_code ignored; !flags.training.options.resume && std::filesystem::exists(checkpoint, ignored)) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint, ": left by an interrupted run; --resume continues it, delete it to start anew"));
  }

  CKN_ASSIGN_OR_RETURN(v1::Recipe recipe,
                       flags.arch.empty() ? ReadRecipeFile(flags.recipe) : BuiltInRecipe(flags.arch));
  if (recipe.name().empty()) recipe.set_name(Printable(std::filesystem::path(flags.recipe).stem().native()));
  const v1::InputSpec& input = recipe.parts_size() > 0 ? recipe.parts(0).input() : recipe.input();
  std::optional<ImageSize> stretch;
  if (input.resize() == v1::RESIZE_POLICY_STRETCH && input.height() > 0 && input.width() > 0) {
    stretch = ImageSize{input.height(), input.width()};
  }
  CKN_ASSIGN_OR_RETURN(const TrainingData data, LoadTrainingData(flags.training, stretch, progress));

  ThreadPool pool(flags.training.threads > 0 ? flags.training.threads : AvailableCpus());
  TrainerOptions options = flags.training.options;
  options.learning.init = flags.init == "random" ? FilterInit::kRandom : FilterInit::kKMeans;
  options.learning.method = flags.method == "nystrom" ? LearningMethod::kNystrom
                            : flags.method == "sgd"   ? LearningMethod::kStochastic
                                                      : LearningMethod::kProblem4;
  options.checkpoint_path = checkpoint;
  absl::StatusOr<Model> model = Train(recipe, data.train, data.test ? &*data.test : nullptr, options, pool, progress);
  if (absl::IsCancelled(model.status())) {
    return absl::CancelledError(
        std::filesystem::exists(checkpoint)
            ? absl::StrCat("interrupted; the same command with --resume continues from ", checkpoint)
            : "interrupted before anything was learned");
  }
  if (!model.ok()) return model.status();
  model->provenance.set_program_version(CKN_VERSION);
  model->provenance.set_decoders(DecoderVersionsText());
  model->provenance.set_command(Printable(CommandLine(flags, data.train.title)));
  CKN_RETURN_IF_ERROR(WriteTrained(*model, out));
  std::error_code ignored;
  std::filesystem::remove(checkpoint, ignored);
  return absl::OkStatus();
}

}  // namespace

void AddTrainCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TrainFlags>();
  TrainerOptions& options = flags->training.options;
  CLI::App* const command = app.add_subcommand("train", "Learn a network and its classifier from a data set");
  command->footer(
      "Example:\n"
      "  ckn train --arch ckn-gm1 --data mnist:DIR --out mnist.ckn\n"
      "Progress goes to standard error, one line with the result to standard output. Ctrl-C stops at the next\n"
      "iteration and keeps FILE.checkpoint, from which --resume continues.\n"
      "The same data, seed and options give the same model file, byte for byte.");

  CLI::Option_group* const network = command->add_option_group("Network");
  network
      ->add_option(
          "--arch", flags->arch,
          "Architecture of the paper's table 3, combination of table 2, or one beyond the paper: see the README")
      ->check(CLI::IsMember(BuiltInRecipeNames()));
  network->add_option("--recipe", flags->recipe, "Any other architecture: a ckn.v1.Recipe in Protobuf text format")
      ->type_name("FILE");
  network->require_option(1);

  AddDataOption(*command, flags->training.data)->required();
  AddTrainingOptions(*command, flags->training);
  command->add_flag("--resume", options.resume, "Continue from FILE.checkpoint if it is there");

  CLI::Option_group* const learning = command->add_option_group("Learning of the filters");
  learning->add_option("--pairs", options.learning.pairs, "Pairs of patches for each layer")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000'000}))
      ->capture_default_str()
      ->type_name("N");
  learning
      ->add_option("--iterations", options.learning.iterations,
                   "L-BFGS-B iterations for each layer, at most; or steps of sgd, of 2,048 pairs each")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->type_name("N");
  learning
      ->add_option("--method", flags->method,
                   "problem4: the paper's, by L-BFGS-B; sgd: the same problem by stochastic gradients; nystrom: "
                   "spherical k-means and a projection, in seconds")
      ->check(CLI::IsMember({"problem4", "sgd", "nystrom"}))
      ->capture_default_str();
  learning->add_option("--init", flags->init, "Filters to start from")
      ->check(CLI::IsMember({"kmeans", "random"}))
      ->capture_default_str();

  AddClassifierOptions(*command, flags->training);
  command->callback([flags, &exit_code] {
    ResolveTrainingOptions(flags->training);
    exit_code = ExitCode("train", RunTrain(*flags));
  });
}

}  // namespace ckn
