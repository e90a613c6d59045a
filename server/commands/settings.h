#pragma once

#include <set>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

// Settings of a command from a file and from the environment, besides its options: the same names, the same checks.
namespace ckn {

// The arguments with which a program is run, `arguments[0]` its name and `arguments[1]` perhaps the command's, with
// those from elsewhere in front of the command's own, where the later one counts: first of the file that the argument
// --config names, then of the environment. File: lines "name = value", # begins a comment. Environment: `prefix` and
// the option's name in capitals, _ for -. INVALID_ARGUMENT: the file cannot be read, or a line of it, or a variable
// with the prefix, is no setting of the command. Exempt are variables that have another meaning, `others`, and those
// that Kubernetes makes of Services.
absl::StatusOr<std::vector<std::string>> AddSettings(std::vector<std::string> arguments, const CLI::App& command,
                                                     const std::string& prefix,
                                                     const std::set<std::string>& others = {});

// Adds --config and --print-config; with the latter, the command's callback is not to be run but PrintSettings. Of an
// option that is given more than once the last one counts.
void AllowSettings(CLI::App& command, bool& print);

// What the file would have to say to give the command's options the values they have.
std::string PrintSettings(const CLI::App& command);

}  // namespace ckn
