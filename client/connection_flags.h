#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace ckn {

// How ckn-client reaches its server.
struct ConnectionFlags {
  std::string server = "127.0.0.1:8500";
  double timeout_seconds = 60;
  bool wait = false;
  bool follow_health = false;
  int max_message_mib = 64;
  bool tls = false;
  std::string tls_ca, tls_cert, tls_key, tls_server_name, token_file;
};

// `flags` must live as long as `app`.
void AddConnectionOptions(CLI::App& app, ConnectionFlags& flags);

// Reads the files that the flags name; messages of errors name the file.
absl::StatusOr<ClientOptions> ReadClientOptions(const ConnectionFlags& flags);

}  // namespace ckn
