// ckn evaluate: the error of a model on a labelled data set.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "server/base/atomic_file.h"
#include "server/base/cpu_quota.h"
#include "server/base/status.h"
#include "server/base/thread_pool.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"
#include "server/training/calibration.h"
#include "server/training/features.h"

namespace ckn {
namespace {

// Rank of a novelty above which an image counts as unlike the training images; so does one in a hundred of those.
constexpr float kNovel = 0.99F;

struct EvaluateFlags {
  std::string file, data, split = "test", predictions, precision = PrecisionName(Precision::kFloat32);
  int threads = 0;
  std::int64_t limit = 0;
  bool json = false;
};

struct Evaluation {
  std::string model, file, sha256, data, split, precision;
  std::vector<std::string> classes;
  std::vector<std::vector<std::int64_t>> confusion;  // [true][predicted]
  std::int64_t count = 0;
  std::int64_t errors = 0;
  std::optional<Calibration> calibration;  // if the model has probabilities
  std::optional<std::int64_t> novel;       // images above kNovel, if the model can tell
  int threads = 0;
  double seconds = 0;

  [[nodiscard]] double ErrorPercent() const { return 100.0 * static_cast<double>(errors) / static_cast<double>(count); }
  [[nodiscard]] double AccuracyPercent() const {
    return 100.0 * static_cast<double>(count - errors) / static_cast<double>(count);
  }
  [[nodiscard]] double ImagesPerSecond() const { return static_cast<double>(count) / std::max(seconds, 1e-9); }
  [[nodiscard]] std::int64_t TrueCount(std::size_t label) const {
    std::int64_t sum = 0;
    for (const std::int64_t value : confusion[label]) sum += value;
    return sum;
  }
  [[nodiscard]] std::int64_t PredictedCount(std::size_t label) const {
    std::int64_t sum = 0;
    for (const std::vector<std::int64_t>& row : confusion) sum += row[label];
    return sum;
  }
};

// RFC 4180: quoted, quotes doubled.
std::string CsvField(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

void PrintJson(const Evaluation& result) {
  // A ratio over nothing is null.
  const auto ratio = [](std::int64_t part, std::int64_t whole) -> nlohmann::ordered_json {
    if (whole == 0) return nullptr;
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  nlohmann::ordered_json json;
  json["model"] = result.model;
  json["file"] = result.file;
  json["sha256"] = result.sha256;
  json["data"] = result.data;
  json["split"] = result.split;
  json["precision"] = result.precision;
  json["count"] = result.count;
  json["errors"] = result.errors;
  json["error_percent"] = result.ErrorPercent();
  json["accuracy_percent"] = result.AccuracyPercent();
  json["log_loss"] = result.calibration ? nlohmann::ordered_json(result.calibration->log_loss) : nullptr;
  json["calibration_error"] = result.calibration ? nlohmann::ordered_json(result.calibration->error) : nullptr;
  json["novel_images"] = result.novel ? nlohmann::ordered_json(*result.novel) : nullptr;
  json["images_per_second"] = result.ImagesPerSecond();
  json["threads"] = result.threads;
  json["classes"] = result.classes;
  json["per_class"] = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < result.classes.size(); ++c) {
    const std::int64_t right = result.confusion[c][c];
    json["per_class"].push_back({{"label", result.classes[c]},
                                 {"count", result.TrueCount(c)},
                                 {"precision", ratio(right, result.PredictedCount(c))},
                                 {"recall", ratio(right, result.TrueCount(c))}});
  }
  json["confusion"] = result.confusion;
  // A path may hold any bytes; JSON only UTF-8.
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

void PrintText(const Evaluation& result) {
  const auto percent = [](std::int64_t part, std::int64_t whole) -> std::string {
    if (whole == 0) return "-";
    return absl::StrFormat("%.2f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  };
  std::printf("%s on %s, %s split\n", result.model.c_str(), result.data.c_str(), result.split.c_str());
  std::printf("error %.2f %% (%s of %s images), accuracy %.2f %%\n", result.ErrorPercent(),
              Thousands(result.errors).c_str(), Thousands(result.count).c_str(), result.AccuracyPercent());
  if (result.calibration) {
    std::printf("probabilities: log loss %.4f, calibration error %.2f %%\n", result.calibration->log_loss,
                100 * result.calibration->error);
  }
  if (result.novel) {
    std::printf("novel: %s of %s images are less well described by the filters than 99 %% of the training images\n",
                Thousands(*result.novel).c_str(), Thousands(result.count).c_str());
  }
  std::printf("%.0f images/s with %d thread%s\n", result.ImagesPerSecond(), result.threads,
              result.threads == 1 ? "" : "s");

  std::size_t width = 5;
  for (const std::string& name : result.classes) width = std::max(width, name.size());
  std::printf("\n%5s  %-*s  %7s  %9s  %9s\n", "index", static_cast<int>(width), "class", "images", "precision",
              "recall");
  for (std::size_t c = 0; c < result.classes.size(); ++c) {
    const std::int64_t right = result.confusion[c][c];
    std::printf("%5zu  %-*s  %7d  %9s  %9s\n", c, static_cast<int>(width), result.classes[c].c_str(),
                static_cast<int>(result.TrueCount(c)), percent(right, result.PredictedCount(c)).c_str(),
                percent(right, result.TrueCount(c)).c_str());
  }

  constexpr std::size_t kMaxColumns = 26;  // what fits a wide terminal
  if (result.classes.size() > kMaxColumns) {
    std::printf("\nThe confusion matrix of %zu classes is in the output of --json.\n", result.classes.size());
    return;
  }
  std::printf("\nConfusion: rows are the true class, columns the predicted index\n%*s  ", static_cast<int>(width), "");
  for (std::size_t c = 0; c < result.classes.size(); ++c) std::printf(" %5zu", c);
  std::printf("\n");
  for (std::size_t t = 0; t < result.classes.size(); ++t) {
    std::printf("%-*s  ", static_cast<int>(width), result.classes[t].c_str());
    for (std::size_t p = 0; p < result.classes.size(); ++p) {
      const std::int64_t value = result.confusion[t][p];
      std::printf(" %5s", value == 0 && t != p ? "." : absl::StrCat(value).c_str());
    }
    std::printf("\n");
  }
}

absl::Status RunEvaluate(const EvaluateFlags& flags) {
  CKN_RETURN_IF_ERROR(CheckOutput(flags.predictions, {flags.file}));
  CKN_ASSIGN_OR_RETURN(const LoadedModel loaded, ReadModelFile(flags.file));
  CKN_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Create(loaded.model, ParsePrecision(flags.precision)));
  CKN_ASSIGN_OR_RETURN(const Dataset data,
                       LoadSplit(flags.data, flags.split, StretchSize(loaded.model.networks.front().input)));
  absl::StatusOr<std::vector<int>> classes = MatchClasses(data, loaded.model.class_names);
  CKN_RETURN_IF_ERROR(Annotate(classes.status(), flags.data));

  std::size_t count = data.size();
  if (flags.limit > 0) count = std::min(count, static_cast<std::size_t>(flags.limit));
  ThreadPool pool(flags.threads > 0 ? flags.threads : AvailableCpus());
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::optional<Novelty>> novelties;
  const absl::StatusOr<RowMatrixF> scores = ScoreImages(pipeline, data, count, pool, Progress{}, &novelties);
  CKN_RETURN_IF_ERROR(Annotate(scores.status(), flags.data));

  Evaluation result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.model = loaded.model.name;
  result.file = flags.file;
  result.sha256 = loaded.sha256;
  result.data = data.title;
  result.split = flags.split;
  result.precision = flags.precision;
  result.classes = loaded.model.class_names;
  result.confusion.assign(result.classes.size(), std::vector<std::int64_t>(result.classes.size()));
  result.count = static_cast<std::int64_t>(count);
  result.threads = pool.threads();
  const std::vector<int> predicted = PredictedClasses(*scores);
  std::vector<int> labels;
  const bool names = !data.item_names.empty();
  const bool ranked = count > 0 && novelties.front().has_value();
  std::string lines =
      absl::StrCat("index,true,predicted", ranked ? ",residual,novelty" : "", names ? ",file" : "", "\n");
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::size_t>((*classes)[static_cast<std::size_t>(data.labels[i])]);
    const auto guess = static_cast<std::size_t>(predicted[i]);
    labels.push_back(static_cast<int>(label));
    ++result.confusion[label][guess];
    if (label != guess) ++result.errors;
    absl::StrAppend(&lines, i, ",", label, ",", guess);
    if (ranked) absl::StrAppend(&lines, ",", novelties[i]->residual, ",", novelties[i]->rank);
    absl::StrAppend(&lines, names ? "," : "", names ? CsvField(data.item_names[i]) : "", "\n");
  }
  if (ranked) {
    result.novel = std::ranges::count_if(novelties, [](const auto& novelty) { return novelty->rank > kNovel; });
  }
  if (const double scale = pipeline.probability_scale(); scale > 0) {
    result.calibration = MeasureCalibration(*scores, labels, scale);
  }
  if (!flags.predictions.empty()) CKN_RETURN_IF_ERROR(WriteFileAtomically(flags.predictions, lines));
  if (flags.json) {
    PrintJson(result);
  } else {
    PrintText(result);
  }
  return absl::OkStatus();
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* const command = app.add_subcommand("evaluate", "Measure the error of a model on a labelled data set");
  command->footer(
      "Example:\n"
      "  ckn evaluate models/mnist.ckn --data mnist:DIR\n"
      "Classes are matched by name, or by number when the data have no names (IDX without class_names.txt); each\n"
      "class of the data must be a class of the model.");
  command->add_option("FILE", flags->file, "Model file")->required();
  AddDataOption(*command, flags->data)->required();
  AddSplitOption(*command, flags->split);
  command->add_option("--limit", flags->limit, "Only the first N images")->check(AtLeast(1))->type_name("N");
  AddPrecisionOption(*command, flags->precision);
  AddThreadsOption(*command, flags->threads);
  command->add_flag("--json", flags->json, "Print JSON instead of tables");
  command
      ->add_option("--predictions", flags->predictions,
                   "Also write index, true and predicted class of each image, its novelty (residual and rank) if the "
                   "model has it, and its file in an image folder, as CSV")
      ->type_name("CSV");
  command->callback([flags, &exit_code] { exit_code = ExitCode("evaluate", RunEvaluate(*flags)); });
}

}  // namespace ckn
