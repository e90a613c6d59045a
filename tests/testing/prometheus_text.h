#pragma once

#include <map>
#include <string>

namespace ckn::testing {

// The samples of a page in Prometheus' text format: "name{label="value",...}" as written there -> value. Fails the
// running test when a line is neither a comment nor a sample, or when a sample appears twice.
std::map<std::string, double> ParsePrometheusText(const std::string& text);

}  // namespace ckn::testing
