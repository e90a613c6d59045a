#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace ckn {

// Accepts numbers from low to high. CLI::Range, which the messages are like, also takes what is not a number.
inline CLI::Validator NumberBetween(double low, double high) {
  return {[low, high](std::string& text) {
            double value = 0;
            if (absl::SimpleAtod(text, &value) && value >= low && value <= high) return std::string();
            return absl::StrFormat("Value %s not in range %g to %g", text, low, high);
          },
          absl::StrFormat("FLOAT in [%g - %g]", low, high)};
}

}  // namespace ckn
