#include "server/commands/common.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ckn {

int ExitCode(const char* command, const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "ckn %s: %s\n", command, std::string(status.message()).c_str());
  return 1;
}

absl::StatusOr<std::vector<int>> MatchClasses(const std::vector<std::string>& data_classes,
                                              const std::vector<std::string>& model_classes) {
  std::vector<int> indices;
  for (const std::string& name : data_classes) {
    const auto found = std::find(model_classes.begin(), model_classes.end(), name);
    if (found == model_classes.end()) {
      constexpr std::size_t kShown = 20;
      const std::size_t shown = std::min(kShown, model_classes.size());
      return absl::InvalidArgumentError(absl::StrCat(
          "the data's class \"", name, "\" is not a class of the model, expected one of: ",
          absl::StrJoin(model_classes.begin(), model_classes.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
          shown < model_classes.size() ? ", ..." : ""));
    }
    indices.push_back(static_cast<int>(found - model_classes.begin()));
  }
  return indices;
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
