#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/training/dataset.h"

// What several subcommands share.
namespace ckn {

// Prints "ckn COMMAND: reason" on stderr unless the status is OK; the exit code of the program.
int ExitCode(const char* command, const absl::Status& status);

// Help of --data, the same everywhere.
inline constexpr char kDataHelp[] = "Data set: KIND is mnist (any IDX set), cifar10, stl10 or images";

// "train" or "test", as checked by CLI::IsMember.
inline Split ParseSplit(const std::string& name) { return name == "train" ? Split::kTrain : Split::kTest; }

// 1234567 -> "1,234,567".
std::string Thousands(std::uint64_t number);

}  // namespace ckn
