// ckn reproduce: the paper's experiments, cell by cell.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/base/thread_pool.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/commands/progress.h"
#include "server/experiments/figure3.h"
#include "server/experiments/table1.h"

namespace ckn {
namespace {

struct ReproduceFlags {
  std::string data, results;
  std::vector<std::string> architectures;
  std::vector<std::int64_t> train_sizes;
  int seeds = 3;
  int threads = 0;
  LearningOptions learning;
};

absl::Status RunReproduceMnist(const ReproduceFlags& flags) {
  const Progress progress = InteractiveProgress();
  CKN_ASSIGN_OR_RETURN(const Dataset train, LoadDataset(flags.data, Split::kTrain));
  CKN_ASSIGN_OR_RETURN(const Dataset test, LoadDataset(flags.data, Split::kTest));
  Table1Options options;
  options.learning = flags.learning;
  options.program_version = CKN_VERSION;
  const auto chosen = [](const auto& some, const auto& one) {
    return some.empty() || std::find(some.begin(), some.end(), one) != some.end();
  };
  for (const Cell& cell : Table1Cells(flags.seeds)) {
    if (chosen(flags.architectures, cell.architecture) && chosen(flags.train_sizes, cell.train_size)) {
      options.cells.push_back(cell);
    }
  }
  ThreadPool pool(flags.threads > 0 ? flags.threads : AvailableCpus());
  const absl::Status status = RunTable1(options, train, test, flags.results, pool, progress);
  if (absl::IsCancelled(status)) {
    return absl::CancelledError("interrupted; the same command goes on where this one stopped");
  }
  CKN_RETURN_IF_ERROR(status);
  std::printf("%zu cells in %s/cells\n", options.cells.size(), flags.results.c_str());
  return absl::OkStatus();
}

struct GaborFlags {
  std::string data, results;
  int threads = 0;
  Figure3Options options;
};

absl::Status RunReproduceGabor(GaborFlags flags) {
  const Progress progress = InteractiveProgress();
  flags.options.program_version = CKN_VERSION;
  ThreadPool pool(flags.threads > 0 ? flags.threads : AvailableCpus());
  const absl::Status status = RunFigure3(flags.options, flags.data, flags.results, pool, progress);
  if (absl::IsCancelled(status))
    return absl::CancelledError("interrupted; the same command goes on where this stopped");
  CKN_RETURN_IF_ERROR(status);
  std::printf("%s/filters.npy %s/figure3.json\n", flags.results.c_str(), flags.results.c_str());
  return absl::OkStatus();
}

void AddLearningOptions(CLI::App& command, LearningOptions& learning) {
  command.add_option("--pairs", learning.pairs, "Pairs of patches for each layer")
      ->check(CLI::Range(std::int64_t{10}, std::int64_t{100'000'000}))
      ->capture_default_str()
      ->type_name("N");
  command.add_option("--iterations", learning.iterations, "L-BFGS-B iterations for each layer, at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->type_name("N");
}

}  // namespace

void AddReproduceCommand(CLI::App& app, int& exit_code) {
  CLI::App* const reproduce = app.add_subcommand("reproduce", "Run the experiments of the paper");
  reproduce->require_subcommand(1);

  auto flags = std::make_shared<ReproduceFlags>();
  CLI::App* const mnist =
      reproduce->add_subcommand("mnist", "Table 1: four architectures on 300 to 60,000 training images");
  mnist->footer(
      "Example:\n"
      "  ckn reproduce mnist --data mnist:DIR --results models/results/mnist\n"
      "Each cell becomes a JSON file in RESULTS/cells; cells that are there are not done again, so an interrupted run\n"
      "goes on where it stopped. Filters are learned once an architecture and seed, on all training images without\n"
      "their labels. RESULTS/cache keeps the learned layers and a model file a cell, which ckn serve and ckn evaluate\n"
      "take; it can be deleted.");
  AddDataOption(*mnist, flags->data)->required();
  mnist->add_option("--results", flags->results, "Folder for the results")->type_name("RESULTS")->required();
  mnist
      ->add_option("--seeds", flags->seeds,
                   "Seeds for sizes up to 10,000, and for 60,000 of CKN-GM1 and CKN-PM1; the rest has one")
      ->check(CLI::Range(1, 100))
      ->capture_default_str()
      ->type_name("N");
  mnist->add_option("--arch", flags->architectures, "Only these architectures")
      ->check(CLI::IsMember({"ckn-gm1", "ckn-gm2", "ckn-pm1", "ckn-pm2"}))
      ->type_name("NAME");
  mnist->add_option("--train-size", flags->train_sizes, "Only these numbers of training images")
      ->check(CLI::IsMember({300, 1000, 2000, 5000, 10000, 20000, 40000, 60000}))
      ->type_name("N");
  AddLearningOptions(*mnist, flags->learning);
  AddThreadsOption(*mnist, flags->threads);
  mnist->callback([flags, &exit_code] { exit_code = ExitCode("reproduce", RunReproduceMnist(*flags)); });

  auto gabor_flags = std::make_shared<GaborFlags>();
  CLI::App* const gabor =
      reproduce->add_subcommand("gabor", "Figure 3: 256 filters of 12x12 on whitened patches of photographs");
  gabor->footer(
      "Example:\n"
      "  ckn reproduce gabor --data PHOTOGRAPHS --results models/results/gabor\n"
      "Writes RESULTS/filters.npy, largest eta first, and RESULTS/figure3.json. An interrupted run goes on where it\n"
      "stopped.");
  gabor->add_option("--data", gabor_flags->data, "Folder of image files")->type_name("FOLDER")->required();
  gabor->add_option("--results", gabor_flags->results, "Folder for the results")->type_name("RESULTS")->required();
  gabor->add_option("--seed", gabor_flags->options.seed, "Seed of all random choices")
      ->capture_default_str()
      ->type_name("S");
  gabor
      ->add_option("--whitening-floor", gabor_flags->options.whitening_floor,
                   "Part of the largest eigenvalue of the covariance that is added to all of them")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str()
      ->type_name("F");
  AddLearningOptions(*gabor, gabor_flags->options.learning);
  AddThreadsOption(*gabor, gabor_flags->threads);
  gabor->callback([gabor_flags, &exit_code] { exit_code = ExitCode("reproduce", RunReproduceGabor(*gabor_flags)); });
}

}  // namespace ckn
