#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/testing/temp_dir.h"

namespace ckn::testing {

// A program that runs with its output caught in files; killed when this object goes while it still runs.
class Process {
 public:
  // Aborts the test binary when the program cannot be started at all.
  explicit Process(const std::vector<std::string>& command);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Waits until the program ends; its exit code, or 128 + the signal that killed it.
  int Wait();

  [[nodiscard]] std::string Stdout() const;
  [[nodiscard]] std::string Stderr() const;
  // Waits until stderr holds `text` or the program has ended; whether it does.
  bool WaitForStderr(const std::string& text);

 private:
  bool Ended();

  TempDir folder_;
  pid_t pid_ = -1;
  int exit_code_ = -1;  // once ended
};

// Runs a program to its end.
struct Finished {
  int exit_code = -1;
  std::string out;
  std::string err;
};
Finished RunProgram(const std::vector<std::string>& command);

}  // namespace ckn::testing
