#pragma once

#include <cstdint>

#include "CLI/CLI.hpp"

// One function a subcommand: declares its options on `app`; when the user picks it, its callback runs the command and
// stores the exit code: 0 done, 1 failed (the reason is on stderr), 2 wrong use. Results go to stdout, progress and
// logs to stderr.
namespace ckn {

void AddTrainCommand(CLI::App& app, int& exit_code);
void AddRefitCommand(CLI::App& app, int& exit_code);
void AddEvaluateCommand(CLI::App& app, int& exit_code);
void AddEncodeCommand(CLI::App& app, int& exit_code);
void AddMergeCommand(CLI::App& app, int& exit_code);
void AddExportCommand(CLI::App& app, int& exit_code);
void AddInspectCommand(CLI::App& app, int& exit_code);
// Bytes that the program has asked for so far, where that is counted; the bench then tells how many an image takes.
using AllocatedBytes = std::int64_t (*)();
void AddBenchCommand(CLI::App& app, int& exit_code, AllocatedBytes allocated_bytes = nullptr);
void AddReproduceCommand(CLI::App& app, int& exit_code);
void AddServeCommand(CLI::App& app, int& exit_code);

}  // namespace ckn
