#pragma once

#include <string>

#include "absl/status/status.h"

// How ckn-client ends, and what it prints on the way.
namespace ckn {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

// A line on stderr.
void PrintError(const std::string& line);

// Prints the status; kFailed.
int Fail(const absl::Status& status);

// Prints a result on stdout; kFailed when the disk is full or the pipe closed.
int PrintResult(const std::string& text);

}  // namespace ckn
