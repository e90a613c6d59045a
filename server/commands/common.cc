#include "server/commands/common.h"

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace ckn {

int ExitCode(const char* command, const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "ckn %s: %s\n", command, std::string(status.message()).c_str());
  return 1;
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
