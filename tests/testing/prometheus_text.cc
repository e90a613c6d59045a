#include "tests/testing/prometheus_text.h"

#include <sstream>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"

namespace ckn::testing {

std::map<std::string, double> ParsePrometheusText(const std::string& text) {
  std::map<std::string, double> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t space = line.rfind(' ');
    double value = 0;
    if (space == std::string::npos || !absl::SimpleAtod(line.substr(space + 1), &value)) {
      ADD_FAILURE() << "not a sample: " << line;
      continue;
    }
    if (!samples.emplace(line.substr(0, space), value).second) ADD_FAILURE() << "twice: " << line;
  }
  return samples;
}

}  // namespace ckn::testing
