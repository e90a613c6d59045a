#include "server/commands/common.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ckn {

int ExitCode(const char* command, const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "ckn %s: %s\n", command, std::string(status.message()).c_str());
  return 1;
}

CLI::Option* AddDataOption(CLI::App& command, std::string& name) {
  return command.add_option("--data", name, "Data set: KIND is mnist (any IDX set), cifar10, stl10 or images")
      ->type_name("KIND:FOLDER")
      ->check([](const std::string& text) { return std::string(ValidateDatasetName(text).message()); });
}

void AddSplitOption(CLI::App& command, std::string& split) {
  command.add_option("--split", split, "Which part of the data set")
      ->check(CLI::IsMember({"test", "train"}))
      ->capture_default_str();
}

void AddThreadsOption(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "Threads; 0: as many as the process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->type_name("N");
}

void AddPrecisionOption(CLI::App& command, std::string& precision) {
  command
      .add_option("--precision", precision,
                  "Of products: bfloat16 rounds filters and patches to 8 bits. Up to a third faster on processors "
                  "with AVX512_BF16, slower on those without")
      ->type_name("NAME")
      ->check(CLI::IsMember({PrecisionName(Precision::kFloat32), PrecisionName(Precision::kBfloat16)}))
      ->capture_default_str();
}

CLI::Validator AtLeast(std::int64_t min) {
  return {[min](const std::string& text) {
            std::int64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error == std::errc() && end == text.data() + text.size() && value >= min) return std::string();
            return absl::StrCat("got ", text, ", expected a whole number of at least ", min);
          },
          ""};
}

absl::StatusOr<Dataset> LoadSplit(const std::string& data, const std::string& split, std::optional<ImageSize> stretch) {
  absl::StatusOr<Dataset> loaded = LoadDataset(data, ParseSplit(split), stretch);
  if (absl::IsNotFound(loaded.status()) && split == "test" && HasSplit(data, Split::kTrain)) {
    return absl::NotFoundError(
        absl::StrCat(loaded.status().message(), "; there is a training split, see --split train"));
  }
  return loaded;
}

std::optional<ImageSize> StretchSize(const InputSpec& input) {
  if (input.resize != ResizePolicy::kStretch) return std::nullopt;
  return ImageSize{input.height, input.width};
}

absl::Status CheckOutput(const std::string& out, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code error;
    if (std::filesystem::equivalent(out, input, error)) {
      return absl::InvalidArgumentError(absl::StrCat(out, ": would overwrite ", input, ", which is read"));
    }
  }
  return absl::OkStatus();
}

std::string Thousands(std::uint64_t number) {
  const std::string digits = absl::StrCat(number);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

}  // namespace ckn
