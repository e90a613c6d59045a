// The config file and the environment of ckn serve, up to the options' values.
#include "server/commands/settings.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "server/commands/commands.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/temp_dir.h"

namespace {

using ckn::testing::CheckErrorMessage;
using ckn::testing::FuzzInput;

// What ckn serve --print-config says to a config file, or nothing when it refuses it.
std::string Settings(const std::string& config_file) {
  int exit_code = 0;
  CLI::App app("", "ckn");
  ckn::AddServeCommand(app, exit_code);
  CLI::App& serve = *app.get_subcommand("serve");
  // Ends the parsing when all has been judged, before a server is started.
  bool accepted = false;
  serve.parse_complete_callback([&accepted] {
    accepted = true;
    throw CLI::Success();
  });
  const auto arguments = ckn::AddSettings({"ckn", "serve", "--config", config_file}, serve, "CKN_");
  if (!arguments.ok()) {
    CheckErrorMessage(arguments.status());
    return {};
  }
  try {
    app.parse(std::vector<std::string>(arguments->rbegin(), arguments->rend() - 1));
  } catch (const CLI::ParseError&) {
    if (!accepted) return {};
  }
  return ckn::PrintSettings(serve);
}

}  // namespace

// A file, and the values of two variables.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ckn::testing::TempDir& folder = *new ckn::testing::TempDir;
  FuzzInput input(data, size);
  const std::string images(input.Part()), listen(input.Part());
  const std::string path = folder.Write("fuzz.conf", input.Rest());
  const std::string printed = Settings(path);
  // What was printed is a config file that says the same.
  if (!printed.empty()) {
    const std::string again = Settings(folder.Write("again.conf", printed));
    CKN_FUZZ_CHECK(again == printed, printed + "\nthen\n" + again);
  }
  if (!images.empty()) setenv("CKN_MAX_IMAGES", images.c_str(), 1);
  if (!listen.empty()) setenv("CKN_LISTEN", listen.c_str(), 1);
  Settings(path);
  unsetenv("CKN_MAX_IMAGES");
  unsetenv("CKN_LISTEN");
  return 0;
}
