// The ckn program: only dispatches to the subcommands.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "google/protobuf/stubs/logging.h"
#include "server/commands/commands.h"
#include "server/commands/settings.h"
#include "server/simd/target.h"

namespace {

void SelectSimdTargetOfEnvironment() {
  const char* const target = std::getenv("CKN_SIMD");
  if (target == nullptr) return;
  const absl::Status status = ckn::SelectSimdTarget(target);
  if (!status.ok()) throw CLI::ValidationError("CKN_SIMD", std::string(status.message()));
}

int Run(int argc, char** argv) {
  // What is wrong with a message is in our own errors.
  google::protobuf::SetLogHandler(nullptr);
  // A file size limit is then an error of the write like any other.
  std::signal(SIGXFSZ, SIG_IGN);
  int exit_code = 0;
  CLI::App app("Convolutional Kernel Networks: train, inspect and serve image classifiers.", "ckn");
  app.set_version_flag("--version", CKN_VERSION);
  app.set_help_all_flag("--help-all", "Help of all subcommands");
  app.require_subcommand(1);
  // Before a subcommand runs, but not for --help.
  app.parse_complete_callback(SelectSimdTargetOfEnvironment);
  app.footer(
      "Environment: CKN_SIMD=avx512_bf16|avx512|avx2|sse4|... keeps to older instruction sets than the machine's "
      "best.");
  ckn::AddTrainCommand(app, exit_code);
  ckn::AddRefitCommand(app, exit_code);
  ckn::AddEvaluateCommand(app, exit_code);
  ckn::AddInspectCommand(app, exit_code);
  ckn::AddEncodeCommand(app, exit_code);
  ckn::AddMergeCommand(app, exit_code);
  ckn::AddExportCommand(app, exit_code);
  ckn::AddBenchCommand(app, exit_code);
  ckn::AddReproduceCommand(app, exit_code);
  ckn::AddServeCommand(app, exit_code);

  // CLI11 would only say that a subcommand is required.
  if (argc > 1 && argv[1][0] != '-' &&
      app.get_subcommands([&](const CLI::App* sub) { return sub->check_name(argv[1]); }).empty()) {
    std::fprintf(stderr, "ckn: unknown command \"%s\", see ckn --help\n", argv[1]);
    return 2;
  }
  absl::StatusOr<std::vector<std::string>> arguments =
      // CKN_DATA_DIR is of the tests and ./run.
      ckn::AddSettings({argv, argv + argc}, *app.get_subcommand("serve"), "CKN_", {"CKN_SIMD", "CKN_DATA_DIR"});
  if (!arguments.ok()) {
    std::fprintf(stderr, "ckn serve: %s\n", std::string(arguments.status().message()).c_str());
    return 2;
  }
  try {
    // CLI11 takes them from the back, without the program.
    app.parse(std::vector<std::string>(arguments->rbegin(), arguments->rend() - 1));
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
  }
  // A full disk or a closed pipe is a failure.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "ckn: cannot write to standard output\n");
    return 1;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  // Debian's Abseil looks for deadlocks at every lock, gRPC's as well: several hundredths of a call's processor time.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  try {
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "ckn: out of memory\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ckn: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "ckn: unexpected failure\n");
  }
  return 1;
}
