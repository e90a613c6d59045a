#include "client/output.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "server/base/quote.h"

namespace ckn {
namespace {

using Json = nlohmann::ordered_json;

// Rows of cells as text columns, two spaces apart.
std::string Columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += line + "\n";
  }
  return out;
}

// File names may hold any bytes; JSON only UTF-8.
std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json ErrorJson(const absl::Status& status) {
  return {{"code", absl::StatusCodeToString(status.code())}, {"message", std::string(status.message())}};
}

// `value` gives the key and content of a file without an error.
template <typename Result, typename Value>
Json BulkJson(const BulkResult<Result>& bulk, const Value& value) {
  Json results = Json::array();
  for (const FileResult<Result>& file : bulk.files) {
    Json entry = {{"file", file.file}};
    if (file.status.ok()) {
      value(file.result, entry);
    } else {
      entry["error"] = ErrorJson(file.status);
    }
    results.push_back(std::move(entry));
  }
  return {{"model", bulk.model}, {"version", bulk.version}, {"results", std::move(results)}};
}

template <typename Result>
void AddNovelty(const Result& result, Json& entry) {
  if (!result.has_novelty()) return;
  entry["novelty"] = {{"residual", result.novelty().residual()}, {"rank", result.novelty().rank()}};
}

}  // namespace

std::string ClassifyTable(const BulkResult<v1::Classification>& bulk) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& file : bulk.files) {
    if (!file.status.ok()) continue;
    std::vector<std::string> row = {Printable(file.file)};
    for (const v1::ClassScore& entry : file.result.classes()) {
      row.push_back(Printable(entry.label()));
      row.push_back(absl::StrFormat("%+.4f", entry.score()));
      if (entry.has_probability()) row.push_back(absl::StrFormat("%.2f %%", 100 * entry.probability()));
    }
    if (file.result.has_novelty()) row.push_back(absl::StrFormat("novelty %.3f", file.result.novelty().rank()));
    rows.push_back(std::move(row));
  }
  return Columns(rows);
}

std::string ClassifyJson(const BulkResult<v1::Classification>& bulk) {
  return Dump(
      BulkJson(bulk,
               [](const v1::Classification& result, Json& entry) {
                 Json classes = Json::array();
                 for (const v1::ClassScore& score : result.classes()) {
                   classes.push_back({{"index", score.index()}, {"label", score.label()}, {"score", score.score()}});
                   if (score.has_probability()) classes.back()["probability"] = score.probability();
                 }
                 entry["classes"] = std::move(classes);
                 AddNovelty(result, entry);
               }),
      2);
}

std::string EncodeTable(const BulkResult<v1::Features>& bulk) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& file : bulk.files) {
    if (!file.status.ok()) continue;
    double squares = 0;
    std::string first;
    for (int i = 0; i < file.result.values_size(); ++i) {
      const float value = file.result.values(i);
      squares += static_cast<double>(value) * value;
      if (i < 4) absl::StrAppendFormat(&first, "%+.4f ", value);
    }
    rows.push_back({Printable(file.file), absl::StrCat(file.result.values_size(), " features"),
                    absl::StrFormat("norm %.4f", std::sqrt(squares)), first + "..."});
  }
  return Columns(rows);
}

std::string EncodeJson(const BulkResult<v1::Features>& bulk) {
  return Dump(BulkJson(bulk,
                       [](const v1::Features& result, Json& entry) {
                         entry["features"] = std::vector<float>(result.values().begin(), result.values().end());
                         AddNovelty(result, entry);
                       }),
              -1);
}

std::string ModelsTable(const v1::ListModelsResponse& response) {
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "VERSION", "INPUT", "FEATURES", "CLASSES", "VALIDATION ERROR", "TEST ERROR", "DATA SET"}};
  for (const v1::ModelInfo& model : response.models()) {
    rows.push_back({Printable(model.name()), Printable(model.version()),
                    absl::StrCat(model.height(), "x", model.width(), "x", model.channels()),
                    absl::StrCat(model.features()), absl::StrCat(model.class_names_size()),
                    absl::StrFormat("%.2f %%", model.validation_error_percent()),
                    model.has_test_error_percent() ? absl::StrFormat("%.2f %%", model.test_error_percent()) : "-",
                    Printable(model.dataset())});
  }
  return Columns(rows);
}

std::string ModelsJson(const v1::ListModelsResponse& response) {
  Json models = Json::array();
  for (const v1::ModelInfo& model : response.models()) {
    Json entry = {{"name", model.name()},
                  {"version", model.version()},
                  {"height", model.height()},
                  {"width", model.width()},
                  {"channels", model.channels()},
                  {"features", model.features()},
                  {"classes", std::vector<std::string>(model.class_names().begin(), model.class_names().end())},
                  {"sha256", model.sha256()},
                  {"dataset", model.dataset()},
                  {"validation_error_percent", model.validation_error_percent()},
                  {"test_error_percent", nullptr}};
    if (model.has_test_error_percent()) entry["test_error_percent"] = model.test_error_percent();
    models.push_back(std::move(entry));
  }
  return Dump({{"models", std::move(models)}}, 2);
}

template <typename Result>
std::vector<std::string> FailureLines(const BulkResult<Result>& bulk) {
  const auto text = [](const absl::Status& status) {
    const absl::string_view message = status.message();
    return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", Printable({message.data(), message.size()}));
  };
  std::vector<std::string> lines;
  std::size_t unanswered = 0;
  for (const FileResult<Result>& file : bulk.files) {
    if (file.status.ok()) continue;
    if (file.status == bulk.call) {
      ++unanswered;
    } else {
      lines.push_back(absl::StrCat(Printable(file.file), ": ", text(file.status)));
    }
  }
  if (!bulk.call.ok()) {
    lines.push_back(absl::StrCat(text(bulk.call), " (", unanswered, unanswered == 1 ? " image)" : " images)"));
  }
  return lines;
}

template std::vector<std::string> FailureLines(const BulkResult<v1::Classification>& bulk);
template std::vector<std::string> FailureLines(const BulkResult<v1::Features>& bulk);

absl::StatusOr<FeatureArray> ToFeatureArray(const BulkResult<v1::Features>& bulk) {
  const auto good =
      std::find_if(bulk.files.begin(), bulk.files.end(), [](const auto& file) { return file.status.ok(); });
  if (good == bulk.files.end()) {
    return bulk.files.empty() ? absl::InvalidArgumentError("no files") : bulk.files.front().status;
  }
  const int width = good->result.values_size();
  FeatureArray array;
  array.shape = {static_cast<std::int64_t>(bulk.files.size()), width};
  array.values.reserve(bulk.files.size() * static_cast<std::size_t>(width));
  for (const auto& file : bulk.files) {
    if (!file.status.ok()) {
      array.values.insert(array.values.end(), static_cast<std::size_t>(width), std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    if (file.result.values_size() != width) {
      return absl::InternalError(absl::StrCat(file.file, ": ", file.result.values_size(), " features, expected ", width,
                                              " as for ", good->file));
    }
    array.values.insert(array.values.end(), file.result.values().begin(), file.result.values().end());
  }
  return array;
}

}  // namespace ckn
