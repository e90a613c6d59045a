#include "server/experiments/table1.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/resource_usage.h"
#include "server/base/status.h"
#include "server/ckn/encoder.h"
#include "server/experiments/results_folder.h"
#include "server/simd/exp.h"
#include "server/store/model_file.h"
#include "server/training/features.h"
#include "server/training/network_learner.h"
#include "server/training/recipe.h"
#include "server/training/trainer.h"

namespace ckn {
namespace {

using Json = nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kArchitectures[] = {"ckn-gm1", "ckn-gm2", "ckn-pm1", "ckn-pm2"};
constexpr std::int64_t kSizes[] = {300, 1'000, 2'000, 5'000, 10'000, 20'000, 40'000, 60'000};
constexpr std::int64_t kManySeedsUpTo = 10'000;

// Wall clock and processor time from here on.
class Stopwatch {
 public:
  [[nodiscard]] double Seconds() const { return std::chrono::duration<double>(SteadyClock::now() - start_).count(); }
  [[nodiscard]] double CpuSeconds() const { return ProcessCpuSeconds() - cpu_; }

 private:
  SteadyClock::time_point start_ = SteadyClock::now();
  double cpu_ = ProcessCpuSeconds();
};

// What the cells of one architecture and seed have in common.
struct Shared {
  NetworkPlan plan;
  LearnedNetwork network;
  RowMatrixF train;  // features of all training images, then ones
  RowMatrixF test;
};

class Table1 {
 public:
  Table1(const Table1Options& options, const Dataset& train, const Dataset& test, ResultsFolder results,
         ThreadPool& pool, const Progress& progress)
      : options_(options),
        train_(train),
        test_(test),
        results_(std::move(results)),
        pool_(pool),
        progress_(progress),
        train_sha256_(DatasetSha256(train)) {}

  absl::Status Run() {
    CKN_ASSIGN_OR_RETURN(test_classes_, MatchClasses(test_, train_.class_names));
    std::size_t done = 0;
    std::optional<Shared> shared;
    std::string shared_name;
    for (const Cell& cell : options_.cells) {
      ++done;
      if (results_.HasCell(cell.Name())) continue;
      progress_.report(absl::StrFormat("%s: cell %d of %d", cell.Name(), done, options_.cells.size()));
      const std::string name = absl::StrCat(cell.architecture, "-seed", cell.seed);
      if (name != shared_name) {
        shared.reset();  // before the next one is made: both would not fit
        CKN_ASSIGN_OR_RETURN(shared, Prepare(cell, name));
        shared_name = name;
      }
      CKN_RETURN_IF_ERROR(RunCell(cell, *shared));
    }
    return absl::OkStatus();
  }

 private:
  // Learns the filters, or takes them from an earlier run, and encodes all images.
  absl::StatusOr<Shared> Prepare(const Cell& cell, const std::string& name) {
    Shared shared;
    CKN_ASSIGN_OR_RETURN(const v1::Recipe recipe, BuiltInRecipe(cell.architecture));
    CKN_ASSIGN_OR_RETURN(shared.plan, ResolveRecipe(recipe, train_.height, train_.width, train_.channels));
    std::vector<std::size_t> all(train_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});

    LearningOptions learning = options_.learning;
    std::vector<Json> curves(shared.plan.layers.size(), Json::array());
    learning.on_iteration = [&curves](int layer, int iteration, double objective) {
      curves[static_cast<std::size_t>(layer - 1)].push_back({iteration, objective});
    };
    const NetworkCheckpoint checkpoint{
        results_.CacheFile(absl::StrCat(name, ".layers")),
        absl::StrCat(name, " data ", train_sha256_, " pairs ", learning.pairs, " iterations ", learning.iterations),
        true};
    const Stopwatch watch;
    const Progress progress = WithPrefix(progress_, absl::StrCat(name, ": "));
    CKN_ASSIGN_OR_RETURN(shared.network,
                         LearnNetwork(shared.plan, train_, all, learning, cell.seed, checkpoint, pool_, progress));
    const bool learned_now = std::ranges::any_of(curves, [](const Json& curve) { return !curve.empty(); });
    if (learned_now) CKN_RETURN_IF_ERROR(results_.WriteLayers(name, LayersJson(cell, shared, watch, curves)));

    CKN_ASSIGN_OR_RETURN(const Encoder encoder, Encoder::Create(shared.network.layers, shared.plan.shapes.front()));
    progress.report(
        absl::StrFormat("encoding %d images to %d features", train_.size() + test_.size(), encoder.feature_count()));
    CKN_ASSIGN_OR_RETURN(shared.train, EncodeDataset(train_, all, shared.plan.input, encoder, pool_, progress));
    all.resize(test_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    CKN_ASSIGN_OR_RETURN(shared.test, EncodeDataset(test_, all, shared.plan.input, encoder, pool_, progress));
    return shared;
  }

  [[nodiscard]] Json LayersJson(const Cell& cell, const Shared& shared, const Stopwatch& watch,
                                const std::vector<Json>& curves) const {
    Json json;
    json["architecture"] = cell.architecture;
    json["seed"] = cell.seed;
    json["learned_on"] = train_.size();
    json["parameters"] = ParameterCount(shared.network.layers);
    json["seconds"] = watch.Seconds();
    json["cpu_seconds"] = watch.CpuSeconds();
    json["threads"] = pool_.threads();
    json["cpu"] = CpuName();
    json["simd"] = SimdTargetName();
    json["program_version"] = options_.program_version;
    json["layers"] = Json::array();
    for (std::size_t k = 0; k < shared.network.layers.size(); ++k) {
      const Layer& layer = shared.network.layers[k];
      if (!layer.learned) continue;
      const v1::LayerLearning& learning = shared.network.learning[k];
      json["layers"].push_back({{"layer", k + 1},
                                {"filters", layer.filter_count()},
                                {"sigma", layer.sigma},
                                {"dead", (layer.eta.array() == 0).count()},
                                {"pairs", learning.pairs()},
                                {"iterations", learning.iterations()},
                                {"objective_start", learning.objective_start()},
                                {"objective", learning.objective()},
                                {"held_out_objective", learning.held_out_objective()},
                                {"curve", curves[k]}});
    }
    return json;
  }

  absl::Status RunCell(const Cell& cell, const Shared& shared) {
    ResetPeakMemory();
    const Stopwatch watch;
    TrainerOptions options;
    options.train_size = cell.train_size;
    options.seed = cell.seed;
    CKN_ASSIGN_OR_RETURN(const TrainingSelection selection, SelectImages(train_, options));
    RowMatrixF features = shared.train(selection.rows, Eigen::all);

    Model model;
    model.name = cell.Name();
    model.input = shared.plan.input;
    model.class_names = train_.class_names;
    model.layers = shared.network.layers;
    model.learning = shared.network.learning;
    CKN_RETURN_IF_ERROR(TrainClassifier(selection, features, options, model, pool_,
                                        WithPrefix(progress_, absl::StrCat(cell.Name(), ": "))));

    const std::size_t classes = train_.class_names.size();
    std::vector<std::vector<int>> confusion(classes, std::vector<int>(classes));
    Json misclassified = Json::array();
    for (std::size_t i = 0; i < test_.size(); ++i) {
      std::vector<float> row(shared.test.row(static_cast<Eigen::Index>(i)).data(),
                             shared.test.row(static_cast<Eigen::Index>(i)).data() + model.svm.features());
      model.standardization.Apply(row);
      const int label = test_classes_[static_cast<std::size_t>(test_.labels[i])];
      const int predicted = ArgMax(model.svm.Score(row));
      ++confusion[static_cast<std::size_t>(label)][static_cast<std::size_t>(predicted)];
      if (label != predicted) misclassified.push_back({i, label, predicted});
    }
    const auto count = static_cast<double>(test_.size());
    v1::Provenance& provenance = model.provenance;
    provenance.set_architecture(cell.architecture);
    provenance.set_dataset(train_.title);
    provenance.set_dataset_sha256(train_sha256_);
    provenance.set_program_version(options_.program_version);
    provenance.set_command("ckn reproduce mnist");
    provenance.set_test_error_percent(100 * static_cast<double>(misclassified.size()) / count);
    provenance.set_test_count(static_cast<std::int64_t>(test_.size()));
    CKN_RETURN_IF_ERROR(WriteModelFile(model, results_.CacheFile(absl::StrCat(cell.Name(), ".ckn"))));

    Json json;
    json["architecture"] = cell.architecture;
    json["train_size"] = cell.train_size;
    json["seed"] = cell.seed;
    json["features"] = model.svm.features();
    json["test_error_percent"] = provenance.test_error_percent();
    json["test_errors"] = misclassified.size();
    json["test_count"] = test_.size();
    json["svm_c"] = provenance.svm_c();
    json["validation"] = provenance.validation();
    json["validation_error_percent"] = provenance.validation_error_percent();
    json["seconds"] = watch.Seconds();
    json["cpu_seconds"] = watch.CpuSeconds();
    json["peak_mib"] = PeakMemoryMib();
    json["threads"] = pool_.threads();
    json["cpu"] = CpuName();
    json["simd"] = SimdTargetName();
    json["program_version"] = options_.program_version;
    json["data_sha256"] = train_sha256_;
    json["validation_curve"] = Json::array();
    for (const v1::ValidationPoint& point : provenance.validation_curve()) {
      json["validation_curve"].push_back({point.svm_c(), point.error_percent()});
    }
    json["confusion"] = confusion;
    json["misclassified"] = misclassified;  // [index in the test set, true class, predicted class]
    CKN_RETURN_IF_ERROR(results_.WriteCell(cell.Name(), json));
    progress_.report(absl::StrFormat("%s: test error %.2f %%, C = %g, %.0f s, %.0f MiB", cell.Name(),
                                     provenance.test_error_percent(), provenance.svm_c(), watch.Seconds(),
                                     PeakMemoryMib()));
    return absl::OkStatus();
  }

  const Table1Options& options_;
  const Dataset& train_;
  const Dataset& test_;
  const ResultsFolder results_;
  ThreadPool& pool_;
  const Progress& progress_;
  const std::string train_sha256_;
  std::vector<int> test_classes_;
};

}  // namespace

std::string Cell::Name() const { return absl::StrCat(architecture, "-", train_size, "-seed", seed); }

std::vector<Cell> Table1Cells(int seeds) {
  std::vector<Cell> cells;
  for (int seed = 1; seed <= seeds; ++seed) {
    for (const std::string architecture : kArchitectures) {
      const bool small = architecture == "ckn-gm1" || architecture == "ckn-pm1";
      for (const std::int64_t size : kSizes) {
        if (seed == 1 || size <= kManySeedsUpTo || (small && size == 60'000)) {
          cells.push_back({architecture, size, static_cast<std::uint64_t>(seed)});
        }
      }
    }
  }
  return cells;
}

absl::Status RunTable1(const Table1Options& options, const Dataset& train, const Dataset& test,
                       const std::string& results, ThreadPool& pool, const Progress& progress) {
  CKN_ASSIGN_OR_RETURN(ResultsFolder folder, ResultsFolder::Open(results));
  return Table1(options, train, test, std::move(folder), pool, progress).Run();
}

}  // namespace ckn
