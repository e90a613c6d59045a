#pragma once

#include "CLI/CLI.hpp"
#include "client/connection_flags.h"

namespace ckn {

// ckn-client load. `connection` and `exit_code` must live as long as `app`.
void AddLoadCommand(CLI::App& app, const ConnectionFlags& connection, int& exit_code);

}  // namespace ckn
