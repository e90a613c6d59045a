#include "server/commands/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/base/quote.h"
#include "server/base/regular_file.h"
#include "server/base/status.h"

namespace ckn {
namespace {

constexpr const char* kConfig = "--config";
constexpr const char* kPrintConfig = "--print-config";
constexpr std::uint64_t kMaxFileBytes = 1 << 20;

bool IsSetting(const CLI::Option& option) {
  const std::string& name = option.get_name();
  return name.rfind("--", 0) == 0 && name != "--help" && name != "--help-all" && name != kConfig &&
         name != kPrintConfig;
}

// As an argument. An empty value would be none, and the next argument be taken for it; and whoever writes one may mean
// the default or nothing: a token file that is not asked for leaves a server open.
absl::StatusOr<std::string> Argument(const std::string& name, const std::string& value) {
  if (value.empty()) return absl::InvalidArgumentError("no value; leave it out for the default");
  return absl::StrCat("--", name, "=", value);
}

absl::StatusOr<std::vector<std::string>> FromFile(const std::string& path, const CLI::App& command) {
  CKN_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxFileBytes));
  std::vector<std::string> arguments;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> setting = absl::StrSplit(line, absl::MaxSplits('=', 1));
    const std::string name(absl::StripAsciiWhitespace(setting.first));
    const CLI::Option* const option = command.get_option_no_throw(absl::StrCat("--", name));
    if (line.find('=') == absl::string_view::npos || option == nullptr || !IsSetting(*option)) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": got ", Quote({line.data(), line.size()}),
                                                     ", expected NAME = VALUE with the name of an option of ",
                                                     command.get_name()));
    }
    absl::StatusOr<std::string> argument = Argument(name, std::string(absl::StripAsciiWhitespace(setting.second)));
    CKN_RETURN_IF_ERROR(Annotate(argument.status(), absl::StrCat("line ", number, ": ", name)));
    arguments.push_back(*std::move(argument));
  }
  return arguments;
}

// Whether Kubernetes has made the variable, of a Service whose name begins like the prefix. Its name ends, after the
// Service's, in SERVICE_HOST, SERVICE_PORT[_NAME], PORT_8500_TCP[_ADDR|_PORT|_PROTO], or PORT with an address as value.
bool IsServiceLink(const std::string& name, const std::string& value) {
  static const auto& protocols = *new std::set<std::string>{"TCP", "UDP", "SCTP"};
  static const auto& parts = *new std::set<std::string>{"ADDR", "PORT", "PROTO"};
  const std::vector<std::string> words = absl::StrSplit(name, '_');
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::vector<std::string> end(word, words.end());
    if (end.size() >= 2 && end[0] == "SERVICE" && (end[1] == "PORT" || (end[1] == "HOST" && end.size() == 2))) {
      return true;
    }
    if (end[0] != "PORT") continue;
    if (end.size() == 1) return absl::StrContains(value, "://");
    const bool number = !end[1].empty() && std::ranges::all_of(end[1], absl::ascii_isdigit);
    if (number && end.size() >= 3 && protocols.contains(end[2]) &&
        (end.size() == 3 || (end.size() == 4 && parts.contains(end[3])))) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> FromEnvironment(const CLI::App& command, const std::string& prefix,
                                                         const std::set<std::string>& others) {
  std::set<std::string> known = others;
  std::vector<std::string> arguments;
  for (const CLI::Option* const option : command.get_options()) {
    if (!IsSetting(*option)) continue;
    const std::string name = option->get_name().substr(2);
    const std::string variable = prefix + absl::StrReplaceAll(absl::AsciiStrToUpper(name), {{"-", "_"}});
    known.insert(variable);
    if (const char* const value = std::getenv(variable.c_str())) {
      absl::StatusOr<std::string> argument = Argument(name, value);
      CKN_RETURN_IF_ERROR(Annotate(argument.status(), absl::StrCat("environment: ", variable)));
      arguments.push_back(*std::move(argument));
    }
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::pair<std::string, std::string> set = absl::StrSplit(*entry, absl::MaxSplits('=', 1));
    const auto& [variable, value] = set;
    if (!absl::StartsWith(variable, prefix) || known.contains(variable)) continue;
    if (IsServiceLink(variable.substr(prefix.size()), value)) continue;
    return absl::InvalidArgumentError(absl::StrCat("environment: got ", Quote(variable), ", expected ", prefix,
                                                   "NAME with the name of an option of ", command.get_name()));
  }
  return arguments;
}

// The value of --config, the last one; empty: none.
std::string ConfigFile(const std::vector<std::string>& arguments) {
  std::string path;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i] == kConfig && i + 1 < arguments.size()) path = arguments[i + 1];
    if (const std::string with = absl::StrCat(kConfig, "="); arguments[i].rfind(with, 0) == 0) {
      path = arguments[i].substr(with.size());
    }
  }
  return path;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> AddSettings(std::vector<std::string> arguments, const CLI::App& command,
                                                     const std::string& prefix, const std::set<std::string>& others) {
  if (arguments.size() < 2 || arguments[1] != command.get_name()) return arguments;
  std::vector<std::string> settings;
  if (const std::string path = ConfigFile(arguments); !path.empty()) {
    absl::StatusOr<std::vector<std::string>> from_file = FromFile(path, command);
    CKN_RETURN_IF_ERROR(Annotate(from_file.status(), Printable(path)));
    settings = *std::move(from_file);
  }
  CKN_ASSIGN_OR_RETURN(const std::vector<std::string> from_environment, FromEnvironment(command, prefix, others));
  settings.insert(settings.end(), from_environment.begin(), from_environment.end());
  arguments.insert(arguments.begin() + 2, settings.begin(), settings.end());
  return arguments;
}

void AllowSettings(CLI::App& command, bool& print) {
  command
      .add_option(kConfig,
                  "File of lines \"name = value\", the options' names; the environment and options override it")
      ->type_name("FILE");
  command.add_flag(kPrintConfig, print, "Print all settings in this form and end");
  for (CLI::Option* const option : command.get_options()) {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

std::string PrintSettings(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* const option : command.get_options()) {
    if (!IsSetting(*option)) continue;
    const bool is_flag = option->get_expected_min() == 0;
    std::string value = option->count() > 0 ? option->results().back() : option->get_default_str();
    if (is_flag && value.empty()) value = "false";
    const bool unset = value.empty();
    absl::StrAppend(&text, unset ? "# " : "", option->get_name().substr(2), " =", unset ? "" : " ", value, "\n");
  }
  return text;
}

}  // namespace ckn
