#include "client/exit_code.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "server/base/quote.h"

namespace ckn {

void PrintError(const std::string& line) { std::fprintf(stderr, "ckn-client: %s\n", line.c_str()); }

int Fail(const absl::Status& status) {
  const absl::string_view message = status.message();
  PrintError(absl::StrCat(absl::StatusCodeToString(status.code()), ": ", Printable({message.data(), message.size()})));
  return kFailed;
}

int PrintResult(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return kDone;
  PrintError("cannot write to standard output");
  return kFailed;
}

}  // namespace ckn
