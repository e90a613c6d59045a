// ckn reproduce: the paper's experiments, cell by cell.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/cpu_quota.h"
#include "server/base/number_between.h"
#include "server/base/status.h"
#include "server/base/thread_pool.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/commands/progress.h"
#include "server/experiments/figure3.h"
#include "server/experiments/tables.h"
#include "server/experiments/variants.h"

namespace ckn {
namespace {

constexpr const char* kPaper = "paper";  // of --variant

absl::Status Interrupted() {
  return absl::CancelledError("interrupted; the same command goes on where this one stopped");
}

struct TableFlags {
  std::string data, results;
  std::vector<std::string> architectures, variants;
  std::vector<std::int64_t> train_sizes;
  int seeds = 0;
  int threads = 0;
  LearningOptions learning;
};

// The cells of a data set's table for the paper's way of learning.
using CellsOf = std::vector<Cell> (*)(const TableFlags& flags, const Dataset& train);

// `command` as one would type it, without the folders.
absl::Status RunReproduceTable(const TableFlags& flags, const std::string& command, CellsOf cells_of) {
  const Progress progress = InteractiveProgress();
  CKN_ASSIGN_OR_RETURN(const Dataset train, LoadDataset(flags.data, Split::kTrain));
  CKN_ASSIGN_OR_RETURN(const Dataset test, LoadDataset(flags.data, Split::kTest));
  TableOptions options;
  options.learning = flags.learning;
  options.command = command;
  options.program_version = CKN_VERSION;
  const auto chosen = [](const auto& some, const auto& one) {
    return some.empty() || std::find(some.begin(), some.end(), one) != some.end();
  };
  std::vector<std::string> variants = flags.variants;
  if (variants.empty()) variants.emplace_back();
  for (const std::string& variant : variants) {
    for (Cell cell : cells_of(flags, train)) {
      if (!chosen(flags.architectures, cell.architecture) || !chosen(flags.train_sizes, cell.train_size)) continue;
      // A cell beside the table may have its own.
      if (!variant.empty()) cell.variant = variant == kPaper ? "" : variant;
      options.cells.push_back(std::move(cell));
    }
  }
  ThreadPool pool(flags.threads > 0 ? flags.threads : AvailableCpus());
  const absl::Status status = RunTable(options, train, test, flags.results, pool, progress);
  if (absl::IsCancelled(status)) return Interrupted();
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
  if (absl::IsCancelled(status)) return Interrupted();
  CKN_RETURN_IF_ERROR(status);
  std::printf("%s/filters.npy %s/figure3.json\n", flags.results.c_str(), flags.results.c_str());
  return absl::OkStatus();
}

void AddResultsOption(CLI::App& command, std::string& results) {
  command.add_option("--results", results, "Folder for the results")->type_name("RESULTS")->required();
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

// What tells the tables apart.
struct TableCommand {
  const char* name;
  const char* description;
  const char* example;
  const char* seeds;
  int default_seeds;
  std::vector<std::string> architectures;
  std::vector<std::int64_t> train_sizes;  // empty: no choice
  CellsOf cells_of;
};

std::vector<TableCommand> TableCommands() {
  return {
      {"mnist",
       "Table 1: four architectures on 300 to 60,000 training images; and CKN-GM2 and CKN-PM1 together",
       "ckn reproduce mnist --data mnist:DIR --results models/results/mnist",
       "Seeds for sizes up to 10,000, and for 60,000 of CKN-GM1, CKN-PM1 and CKN-CO; the rest has one",
       3,
       {"ckn-gm1", "ckn-gm2", "ckn-pm1", "ckn-pm2", "ckn-co-mnist"},
       {300, 1'000, 2'000, 5'000, 10'000, 20'000, 40'000, 60'000},
       [](const TableFlags& flags, const Dataset&) { return Table1Cells(flags.seeds); }},
      {"cifar10",
       "Table 2: CKN-GM, CKN-PM and both together on CIFAR-10; and CKN-WIDE, which is larger than the paper's",
       "ckn reproduce cifar10 --data cifar10:DIR --results models/results/cifar10",
       "Seeds",
       1,
       {"ckn-gm-cifar10", "ckn-pm-cifar10", "ckn-co-cifar10", "ckn-wide-cifar10"},
       {},
       [](const TableFlags& flags, const Dataset&) { return Cifar10Cells(flags.seeds); }},
      {"stl10",
       "Table 2: CKN-GM, CKN-PM and both together on the ten folds of STL-10",
       "ckn reproduce stl10 --data stl10:DIR --results models/results/stl10",
       "Seeds",
       1,
       {"ckn-gm-stl10", "ckn-pm-stl10", "ckn-co-stl10"},
       {},
       [](const TableFlags& flags, const Dataset& train) {
         return Stl10Cells(flags.seeds, static_cast<int>(train.folds.size()));
       }},
  };
}

void AddTableCommand(CLI::App& reproduce, const TableCommand& table, int& exit_code) {
  auto flags = std::make_shared<TableFlags>();
  flags->seeds = table.default_seeds;
  CLI::App* const command = reproduce.add_subcommand(table.name, table.description);
  command->footer(absl::StrCat(
      "Example:\n  ", table.example,
      "\nEach cell becomes a JSON file in RESULTS/cells; cells that are there are not done again, so an interrupted "
      "run\n"
      "goes on where it stopped. Filters are learned once a network and seed, on all training images without their\n"
      "labels. RESULTS/cache keeps the learned layers and a model file a cell, which ckn serve and ckn evaluate take;\n"
      "it can be deleted."));
  AddDataOption(*command, flags->data)->required();
  AddResultsOption(*command, flags->results);
  command->add_option("--seeds", flags->seeds, table.seeds)
      ->check(CLI::Range(1, 100))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--arch", flags->architectures, "Only these architectures")
      ->check(CLI::IsMember(table.architectures))
      ->type_name("NAME");
  if (!table.train_sizes.empty()) {
    command->add_option("--train-size", flags->train_sizes, "Only these numbers of training images")
        ->check(CLI::IsMember(table.train_sizes))
        ->type_name("N");
  }
  command
      ->add_option("--variant", flags->variants,
                   absl::StrCat("How the network is made: ", kPaper, ", ", absl::StrJoin(VariantNames(), ", "),
                                ", or several joined by + as in nystrom+whitened; default: as in the paper, but for "
                                "what is larger than its networks"))
      ->check([](const std::string& variant) {
        return variant == kPaper ? std::string() : std::string(CheckVariant(variant).message());
      })
      ->type_name("NAME");
  AddLearningOptions(*command, flags->learning);
  AddThreadsOption(*command, flags->threads);
  command->callback([flags, line = absl::StrCat("ckn reproduce ", table.name), cells_of = table.cells_of, &exit_code] {
    exit_code = ExitCode("reproduce", RunReproduceTable(*flags, line, cells_of));
  });
}

}  // namespace

void AddReproduceCommand(CLI::App& app, int& exit_code) {
  CLI::App* const reproduce = app.add_subcommand("reproduce", "Run the experiments of the paper");
  reproduce->require_subcommand(1);
  for (const TableCommand& table : TableCommands()) AddTableCommand(*reproduce, table, exit_code);

  auto gabor_flags = std::make_shared<GaborFlags>();
  CLI::App* const gabor =
      reproduce->add_subcommand("gabor", "Figure 3: 256 filters of 12x12 on whitened patches of photographs");
  gabor->footer(
      "Example:\n"
      "  ckn reproduce gabor --data PHOTOGRAPHS --results models/results/gabor\n"
      "Writes RESULTS/filters.npy, largest eta first, and RESULTS/figure3.json. An interrupted run goes on where it\n"
      "stopped.");
  gabor->add_option("--data", gabor_flags->data, "Folder of image files")->type_name("FOLDER")->required();
  AddResultsOption(*gabor, gabor_flags->results);
  gabor->add_option("--seed", gabor_flags->options.seed, "Seed of all random choices")
      ->capture_default_str()
      ->type_name("S");
  gabor
      ->add_option("--components", gabor_flags->options.components,
                   "Principal components of the patches that whitening keeps, out of 144")
      ->check(CLI::Range(1, 144))
      ->capture_default_str()
      ->type_name("N");
  gabor
      ->add_option("--min-contrast", gabor_flags->options.min_contrast,
                   "Leave out patches whose pixels, in [0, 1], have a smaller standard deviation")
      ->check(NumberBetween(0.0, 0.2))
      ->capture_default_str()
      ->type_name("X");
  CLI::Option* const sigma = gabor->add_option("--sigma", gabor_flags->options.sigma, "Sigma of the kernel")
                                 ->check(NumberBetween(1e-3, 100.0))
                                 ->capture_default_str()
                                 ->type_name("X");
  gabor
      ->add_option("--sigma-quantile", gabor_flags->options.sigma_quantile,
                   "Sigma is this quantile of the distances instead (the paper's text: 0.1)")
      ->check(NumberBetween(1e-6, 1.0))
      ->type_name("Q")
      ->excludes(sigma);
  AddLearningOptions(*gabor, gabor_flags->options.learning);
  AddThreadsOption(*gabor, gabor_flags->threads);
  gabor->callback([gabor_flags, &exit_code] { exit_code = ExitCode("reproduce", RunReproduceGabor(*gabor_flags)); });
}

}  // namespace ckn
