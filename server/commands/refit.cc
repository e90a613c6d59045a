// ckn refit: a new classifier on networks that are learned already.
#include <iterator>
#include <memory>
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
#include "server/training/trainer.h"

namespace ckn {
namespace {

struct RefitFlags {
  TrainingFlags training;
  std::vector<std::string> files;
};

absl::Status RunRefit(const RefitFlags& flags) {
  const Progress progress = InteractiveProgress();
  CKN_RETURN_IF_ERROR(CheckModelOutput(flags.training.out));
  std::vector<Network> networks;
  std::vector<std::string> names;
  for (const std::string& file : flags.files) {
    CKN_ASSIGN_OR_RETURN(LoadedModel loaded, ReadModelFile(file));
    for (Network& network : loaded.model.networks) {
      if (network.architecture.empty()) network.architecture = loaded.model.name;
    }
    if (!networks.empty()) {
      const InputSpec& input = loaded.model.networks.front().input;
      CKN_RETURN_IF_ERROR(Annotate(CheckSameImages(networks.front().input, input), file));
    }
    std::move(loaded.model.networks.begin(), loaded.model.networks.end(), std::back_inserter(networks));
    names.push_back(loaded.model.name);
  }
  CKN_ASSIGN_OR_RETURN(const TrainingData data,
                       LoadTrainingData(flags.training, StretchSize(networks.front().input), progress));
  ThreadPool pool(flags.training.threads > 0 ? flags.training.threads : AvailableCpus());
  TrainerOptions options = flags.training.options;
  if (options.model_name.empty()) options.model_name = absl::StrJoin(names, "+");
  absl::StatusOr<Model> model =
      Refit(std::move(networks), data.train, data.test ? &*data.test : nullptr, options, pool, progress);
  if (absl::IsCancelled(model.status())) return absl::CancelledError("interrupted; nothing was written");
  if (!model.ok()) return model.status();
  model->provenance.set_program_version(CKN_VERSION);
  model->provenance.set_decoders(DecoderVersionsText());
  model->provenance.set_command(
      Printable(absl::StrCat("ckn refit ", absl::StrJoin(names, " "), DataOptionsText(flags.training, data.train.title),
                             ClassifierOptionsText(flags.training))));
  return WriteTrained(*model, flags.training.out);
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
      "The filters stay as they are: seconds instead of minutes. The new model has the classes of the data. With\n"
      "several files the classifier sees the features of all their networks, one behind the other.");
  command->add_option("FILES", flags->files, "Model files")->type_name("FILE")->required();
  AddTrainingOptions(*command, flags->training);
  AddClassifierOptions(*command, flags->training);
  command->callback([flags, &exit_code] {
    CheckTrainingOptions(flags->training);
    exit_code = ExitCode("refit", RunRefit(*flags));
  });
}

}  // namespace ckn
