#include "tests/e2e/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

namespace ckn::testing {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Process::Process(const std::vector<std::string>& command) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string out = folder_.File("stdout");
  const std::string err = folder_.File("stderr");
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const int error = posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    std::fprintf(stderr, "cannot start %s\n", arguments[0]);
    std::abort();
  }
}

Process::~Process() {
  if (Ended()) return;
  Signal(SIGKILL);
  Wait();
}

void Process::Signal(int signal) const { kill(pid_, signal); }

bool Process::Ended() {
  if (exit_code_ >= 0) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

int Process::Wait() {
  while (!Ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return exit_code_;
}

std::string Process::Stdout() const { return ReadFile(folder_.File("stdout")); }

std::string Process::Stderr() const { return ReadFile(folder_.File("stderr")); }

bool Process::WaitForStderr(const std::string& text) {
  for (;;) {
    const bool ended = Ended();  // before reading: what it wrote last is then in the file
    if (Stderr().find(text) != std::string::npos) return true;
    if (ended) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Finished RunProgram(const std::vector<std::string>& command) {
  Process process(command);
  const int exit_code = process.Wait();
  return {.exit_code = exit_code, .out = process.Stdout(), .err = process.Stderr()};
}

}  // namespace ckn::testing
