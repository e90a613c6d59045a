#include "server/experiments/tables.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/resource_usage.h"
#include "server/base/status.h"
#include "server/experiments/results_folder.h"
#include "server/experiments/variants.h"
#include "server/feature_extractor.h"
#include "server/pipeline.h"
#include "server/simd/target.h"
#include "server/store/model_file.h"
#include "server/training/checkpoint.h"
#include "server/training/features.h"
#include "server/training/network_learner.h"
#include "server/training/recipe.h"
#include "server/training/trainer.h"

namespace ckn {
namespace {

using Json = nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kTable1Architectures[] = {"ckn-gm1", "ckn-gm2", "ckn-pm1", "ckn-pm2"};
constexpr std::int64_t kTable1Sizes[] = {300, 1'000, 2'000, 5'000, 10'000, 20'000, 40'000, 60'000};
constexpr std::int64_t kManySeedsUpTo = 10'000;
constexpr std::int64_t kCifar10TrainSize = 50'000;
constexpr std::int64_t kStl10FoldSize = 1'000;

// All that decides what a network's layers become, besides data, seed and how they are learned.
std::string Fingerprint(const NetworkPlan& plan) {
  std::string text = absl::StrCat("map ", static_cast<int>(plan.input.map));
  for (const LayerPlan& layer : plan.layers) {
    absl::StrAppendFormat(&text,
                          "; %d filters of %d, gamma %d, radius %d, mean %d, sigma %g or quantile %g, whiten %d %g, "
                          "components %d, pairs %d times",
                          layer.filters, layer.layer.patch_size, layer.layer.subsampling, layer.layer.pooling_radius,
                          layer.layer.subtract_patch_mean, layer.sigma, layer.sigma_quantile, layer.whiten,
                          layer.whitening_floor, layer.principal_components, layer.pairs_factor);
  }
  return text;
}

// Wall clock and processor time from here on.
class Stopwatch {
 public:
  [[nodiscard]] double Seconds() const { return std::chrono::duration<double>(SteadyClock::now() - start_).count(); }
  [[nodiscard]] double CpuSeconds() const { return ProcessCpuSeconds() - cpu_; }

 private:
  SteadyClock::time_point start_ = SteadyClock::now();
  double cpu_ = ProcessCpuSeconds();
};

std::vector<std::size_t> AllOf(const Dataset& data) {
  std::vector<std::size_t> rows(data.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

// "ckn-gm1-nystrom-seed1": what a network's learned layers are known by.
std::string LayersName(const std::string& architecture, const Cell& cell) {
  return absl::StrCat(architecture, cell.variant.empty() ? "" : "-", cell.variant, "-seed", cell.seed);
}

// What the cells of one architecture, variant and seed have in common.
struct Shared {
  std::vector<Network> networks;
  FeatureExtractor extractor;
  // Features of all images, then ones; empty where only one cell would use them.
  RowMatrixF train, test;
};

class Table {
 public:
  Table(const TableOptions& options, const Dataset& train, const Dataset& test, ResultsFolder results, ThreadPool& pool,
        const Progress& progress)
      : options_(options),
        train_(train),
        test_(test),
        results_(std::move(results)),
        pool_(pool),
        progress_(progress),
        train_sha256_(DatasetSha256(train)) {}

  absl::Status Run() {
    CKN_ASSIGN_OR_RETURN(test_classes_, MatchClasses(test_, train_.class_names));
    // What cannot be done is said before hours of work.
    for (const Cell& cell : options_.cells) {
      LearningOptions learning = options_.learning;
      CKN_RETURN_IF_ERROR(Plans(cell, learning).status());
    }
    std::size_t done = 0;
    std::optional<Shared> shared;
    std::string shared_name;
    for (const Cell& cell : options_.cells) {
      ++done;
      if (results_.HasCell(cell.Name())) continue;
      progress_.report(absl::StrFormat("%s: cell %d of %d", cell.Name(), done, options_.cells.size()));
      const std::string name = LayersName(cell.architecture, cell);
      if (name != shared_name) {
        shared.reset();  // before the next one is made: both would not fit
        CKN_ASSIGN_OR_RETURN(shared, Prepare(cell));
        shared_name = name;
      }
      CKN_RETURN_IF_ERROR(RunCell(cell, *shared));
    }
    return absl::OkStatus();
  }

 private:
  // Learns the filters, or takes them from an earlier run, and encodes all images if several cells need them.
  absl::StatusOr<Shared> Prepare(const Cell& cell) {
    LearningOptions learning = options_.learning;
    CKN_ASSIGN_OR_RETURN(const std::vector<NetworkPlan> plans, Plans(cell, learning));
    Shared shared;
    for (const NetworkPlan& plan : plans) {
      CKN_ASSIGN_OR_RETURN(Network network, Learn(plan, learning, cell));
      CKN_RETURN_IF_ERROR(shared.extractor.Add(network.input, network.layers));
      shared.networks.push_back(std::move(network));
    }
    const auto users = std::ranges::count_if(options_.cells, [&](const Cell& other) {
      return LayersName(other.architecture, other) == LayersName(cell.architecture, cell) &&
             !results_.HasCell(other.Name());
    });
    if (users > 1) {
      CKN_ASSIGN_OR_RETURN(shared.train, Encode(train_, AllOf(train_), shared, cell));
      CKN_ASSIGN_OR_RETURN(shared.test, Encode(test_, AllOf(test_), shared, cell));
    }
    return shared;
  }

  // The networks of a cell; its variant's changes are made to `learning`, too.
  absl::StatusOr<std::vector<NetworkPlan>> Plans(const Cell& cell, LearningOptions& learning) const {
    CKN_ASSIGN_OR_RETURN(const v1::Recipe recipe, BuiltInRecipe(cell.architecture));
    CKN_ASSIGN_OR_RETURN(std::vector<NetworkPlan> plans,
                         ResolveRecipes(recipe, train_.height, train_.width, train_.channels));
    CKN_RETURN_IF_ERROR(Annotate(ApplyVariant(cell.variant, plans, learning), cell.Name()));
    return plans;
  }

  absl::StatusOr<Network> Learn(const NetworkPlan& plan, LearningOptions learning, const Cell& cell) {
    std::vector<Json> curves(plan.layers.size(), Json::array());
    learning.on_iteration = [&curves](int layer, int iteration, double objective) {
      curves[static_cast<std::size_t>(layer - 1)].push_back({iteration, objective});
    };
    const std::string name = LayersName(plan.name, cell);
    const std::string key = absl::StrCat(name, " data ", train_sha256_, " pairs ", learning.pairs, " iterations ",
                                         learning.iterations, " ", Fingerprint(plan));
    CKN_ASSIGN_OR_RETURN(LayerJournal journal,
                         LayerJournal::Open(results_.CacheFile(absl::StrCat(name, ".layers")), key, true));
    const Stopwatch watch;
    CKN_ASSIGN_OR_RETURN(Network network, LearnNetwork(plan, train_, AllOf(train_), learning, cell.seed, journal, pool_,
                                                       WithPrefix(progress_, absl::StrCat(name, ": "))));
    if (std::cmp_less(journal.finished_before(), plan.layers.size())) {
      CKN_RETURN_IF_ERROR(results_.WriteLayers(name, LayersJson(cell, network, watch, curves)));
    }
    return network;
  }

  absl::StatusOr<RowMatrixF> Encode(const Dataset& data, const std::vector<std::size_t>& rows, const Shared& shared,
                                    const Cell& cell) {
    progress_.report(absl::StrFormat("%s: encoding %d images to %d features", LayersName(cell.architecture, cell),
                                     rows.size(), shared.extractor.feature_count()));
    return EncodeDataset(data, rows, shared.extractor, pool_, progress_);
  }

  [[nodiscard]] Json LayersJson(const Cell& cell, const Network& network, const Stopwatch& watch,
                                const std::vector<Json>& curves) const {
    Json json;
    json["architecture"] = network.architecture;
    if (!cell.variant.empty()) json["variant"] = cell.variant;
    json["seed"] = cell.seed;
    json["learned_on"] = train_.size();
    json["parameters"] = ParameterCount(network.layers);
    json["seconds"] = watch.Seconds();
    json["cpu_seconds"] = watch.CpuSeconds();
    AddMachine(json);
    json["layers"] = Json::array();
    for (std::size_t k = 0; k < network.layers.size(); ++k) {
      const Layer& layer = network.layers[k];
      if (!layer.learned) continue;
      const v1::LayerLearning& learning = network.learning[k];
      json["layers"].push_back({{"layer", k + 1},
                                {"filters", layer.filter_count()},
                                {"sigma", layer.sigma},
                                {"dead", (layer.eta.array() == 0).count()},
                                {"pairs", learning.pairs()},
                                {"principal_components", learning.principal_components()},
                                {"iterations", learning.iterations()},
                                {"objective_start", learning.objective_start()},
                                {"objective", learning.objective()},
                                {"held_out_objective", learning.held_out_objective()},
                                {"curve", curves[k]}});
    }
    return json;
  }

  void AddMachine(Json& json) const {
    json["threads"] = pool_.threads();
    json["cpu"] = CpuName();
    json["simd"] = SimdTarget();
    json["program_version"] = options_.program_version;
  }

  absl::Status RunCell(const Cell& cell, const Shared& shared) {
    ResetPeakMemory();
    const Stopwatch watch;
    TrainerOptions options;
    options.train_size = cell.train_size;
    options.fold = cell.fold;
    options.seed = cell.seed;
    CKN_ASSIGN_OR_RETURN(const TrainingSelection selection, SelectImages(train_, options));
    RowMatrixF features;
    if (shared.train.size() > 0) {
      features = shared.train(selection.rows, Eigen::all);
    } else {
      CKN_ASSIGN_OR_RETURN(features, Encode(train_, selection.rows, shared, cell));
    }

    Model model;
    model.name = cell.Name();
    model.networks = shared.networks;
    model.class_names = train_.class_names;
    CKN_RETURN_IF_ERROR(TrainClassifier(selection, features, shared.extractor.feature_counts(), options, model, pool_,
                                        WithPrefix(progress_, absl::StrCat(cell.Name(), ": "))));
    features.resize(0, 0);

    CKN_ASSIGN_OR_RETURN(const std::vector<int> predicted, PredictTest(model, shared));
    const std::size_t classes = train_.class_names.size();
    std::vector<std::vector<int>> confusion(classes, std::vector<int>(classes));
    Json misclassified = Json::array();
    for (std::size_t i = 0; i < test_.size(); ++i) {
      const int label = test_classes_[static_cast<std::size_t>(test_.labels[i])];
      ++confusion[static_cast<std::size_t>(label)][static_cast<std::size_t>(predicted[i])];
      if (label != predicted[i]) misclassified.push_back({i, label, predicted[i]});
    }
    const auto count = static_cast<double>(test_.size());
    v1::Provenance& provenance = model.provenance;
    provenance.set_architecture(cell.architecture);
    provenance.set_dataset(train_.title);
    provenance.set_dataset_sha256(train_sha256_);
    provenance.set_program_version(options_.program_version);
    provenance.set_command(options_.command);
    provenance.set_test_error_percent(100 * static_cast<double>(misclassified.size()) / count);
    provenance.set_test_count(static_cast<std::int64_t>(test_.size()));
    CKN_RETURN_IF_ERROR(WriteModelFile(model, results_.CacheFile(absl::StrCat(cell.Name(), ".ckn"))));

    Json json;
    json["architecture"] = cell.architecture;
    if (!cell.variant.empty()) json["variant"] = cell.variant;
    json["train_size"] = cell.train_size;
    json["seed"] = cell.seed;
    if (cell.fold >= 0) json["fold"] = cell.fold;
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
    AddMachine(json);
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

  // Classes of the test images, by the features that are there already or from the pixels.
  absl::StatusOr<std::vector<int>> PredictTest(const Model& model, const Shared& shared) {
    if (shared.test.size() == 0) {
      CKN_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Create(model));
      CKN_ASSIGN_OR_RETURN(const RowMatrixF scores, ScoreImages(pipeline, test_, test_.size(), pool_, progress_));
      return PredictedClasses(scores);
    }
    std::vector<Standardization> standardizations;
    for (const Network& network : model.networks) standardizations.push_back(network.standardization);
    std::vector<int> predicted(test_.size());
    pool_.ParallelFor(predicted.size(), [&](std::size_t i, int) {
      const float* const row = shared.test.row(static_cast<Eigen::Index>(i)).data();
      std::vector<float> features(row, row + model.svm.features());
      Standardize(standardizations, features);
      predicted[i] = ArgMax(model.svm.Score(features));
    });
    return predicted;
  }

  const TableOptions& options_;
  const Dataset& train_;
  const Dataset& test_;
  const ResultsFolder results_;
  ThreadPool& pool_;
  const Progress& progress_;
  const std::string train_sha256_;
  std::vector<int> test_classes_;
};

}  // namespace

std::string Cell::Name() const {
  return absl::StrCat(architecture, variant.empty() ? "" : "-", variant, "-",
                      fold < 0 ? absl::StrCat(train_size) : absl::StrCat("fold", fold), "-seed", seed);
}

std::vector<Cell> Table1Cells(int seeds) {
  std::vector<Cell> cells;
  for (int seed = 1; seed <= seeds; ++seed) {
    for (const std::string architecture : kTable1Architectures) {
      const bool small = architecture == "ckn-gm1" || architecture == "ckn-pm1";
      for (const std::int64_t size : kTable1Sizes) {
        if (seed == 1 || size <= kManySeedsUpTo || (small && size == 60'000)) {
          cells.push_back({architecture, size, static_cast<std::uint64_t>(seed)});
        }
      }
    }
    cells.push_back({"ckn-co-mnist", kTable1Sizes[std::size(kTable1Sizes) - 1], static_cast<std::uint64_t>(seed)});
  }
  return cells;
}

std::vector<Cell> Cifar10Cells(int seeds) {
  std::vector<Cell> cells;
  for (int seed = 1; seed <= seeds; ++seed) {
    for (const char* const architecture : {"ckn-gm-cifar10", "ckn-pm-cifar10", "ckn-co-cifar10"}) {
      cells.push_back({architecture, kCifar10TrainSize, static_cast<std::uint64_t>(seed)});
    }
    Cell wide{"ckn-wide-cifar10", kCifar10TrainSize, static_cast<std::uint64_t>(seed)};
    wide.variant = "nystrom";
    cells.push_back(std::move(wide));
  }
  return cells;
}

std::vector<Cell> Stl10Cells(int seeds, int folds) {
  std::vector<Cell> cells;
  for (int seed = 1; seed <= seeds; ++seed) {
    for (const char* const architecture : {"ckn-gm-stl10", "ckn-pm-stl10", "ckn-co-stl10"}) {
      for (int fold = 0; fold < folds; ++fold) {
        cells.push_back({architecture, kStl10FoldSize, static_cast<std::uint64_t>(seed), fold});
      }
    }
  }
  return cells;
}

absl::Status RunTable(const TableOptions& options, const Dataset& train, const Dataset& test,
                      const std::string& results, ThreadPool& pool, const Progress& progress) {
  CKN_ASSIGN_OR_RETURN(ResultsFolder folder, ResultsFolder::Open(results));
  return Table(options, train, test, std::move(folder), pool, progress).Run();
}

}  // namespace ckn
