#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/ckn/precision.h"
#include "server/image/preprocess.h"
#include "server/training/dataset.h"

// What several subcommands share.
namespace ckn {

// Prints "ckn COMMAND: reason" on stderr unless the status is OK; the exit code of the program.
int ExitCode(const char* command, const absl::Status& status);

// --data KIND:FOLDER; a name that is not of this form is wrong use.
CLI::Option* AddDataOption(CLI::App& command, std::string& name);
// --split train|test.
void AddSplitOption(CLI::App& command, std::string& split);
// --threads N; 0, the default, stands for AvailableCpus().
void AddThreadsOption(CLI::App& command, int& threads);

// --precision float32|bfloat16.
void AddPrecisionOption(CLI::App& command, std::string& precision);

// Accepts whole numbers from `min` on.
CLI::Validator AtLeast(std::int64_t min);

// "train" or "test", as checked by AddSplitOption.
inline Split ParseSplit(const std::string& name) { return name == "train" ? Split::kTrain : Split::kTest; }

// "float32" or "bfloat16", as checked by AddPrecisionOption.
inline Precision ParsePrecision(const std::string& name) {
  return name == PrecisionName(Precision::kBfloat16) ? Precision::kBfloat16 : Precision::kFloat32;
}

// LoadDataset for --data and --split; a missing test split whose set has a training split says so.
absl::StatusOr<Dataset> LoadSplit(const std::string& data, const std::string& split, std::optional<ImageSize> stretch);

// For LoadDataset: the input's size when the model stretches images to it.
std::optional<ImageSize> StretchSize(const InputSpec& input);

// INVALID_ARGUMENT when `out` is one of the files that are read.
absl::Status CheckOutput(const std::string& out, const std::vector<std::string>& inputs);

// 1234567 -> "1,234,567".
std::string Thousands(std::uint64_t number);

}  // namespace ckn
