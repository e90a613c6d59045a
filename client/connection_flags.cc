#include "client/connection_flags.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/host_port.h"
#include "server/base/number_between.h"
#include "server/base/quote.h"
#include "server/base/regular_file.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// For CLI11: an empty text when gRPC can take `text`.
std::string CheckServer(const std::string& text) {
  // gRPC's own names.
  for (const char* const scheme : {"dns:", "ipv4:", "ipv6:", "unix:", "xds:"}) {
    if (text.rfind(scheme, 0) == 0) return {};
  }
  const absl::StatusOr<HostPort> parsed = ParseHostPort(text);
  if (!parsed.ok()) return std::string(parsed.status().message());
  return parsed->port > 0 ? std::string() : absl::StrCat("address ", Quote(text), ": port 0 is no server's");
}

// Messages name the path.
absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (path.empty()) return std::string();
  absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return Annotate(text.status(), path);
  return text;
}

// Throws CLI::ValidationError for options that would be without effect.
void CheckConnectionFlags(const ConnectionFlags& flags) {
  if (flags.tls || !flags.tls_ca.empty()) return;
  for (const auto& [name, value] :
       {std::pair("--tls-cert", &flags.tls_cert), std::pair("--tls-server-name", &flags.tls_server_name)}) {
    if (!value->empty()) throw CLI::ValidationError(name, "has no effect without --tls or --tls-ca");
  }
}

}  // namespace

void AddConnectionOptions(CLI::App& app, ConnectionFlags& flags) {
  app.add_option("--server", flags.server, "Address of the server")
      ->type_name("HOST:PORT")
      ->check(CheckServer)
      ->capture_default_str();
  app.add_option("--timeout", flags.timeout_seconds, "Seconds that one call may take")
      ->type_name("SECONDS")
      ->check(NumberBetween(0.001, 86400.0))
      ->capture_default_str();
  CLI::Option* const tls = app.add_flag("--tls", flags.tls, "TLS, with the authorities that the system trusts");
  CLI::Option* const ca =
      app.add_option("--tls-ca", flags.tls_ca, "TLS, with the authorities of this file")->type_name("PEM");
  CLI::Option* const certificate =
      app.add_option("--tls-cert", flags.tls_cert, "Certificate to show to the server")->type_name("PEM");
  CLI::Option* const key = app.add_option("--tls-key", flags.tls_key, "Its private key")->type_name("PEM");
  app.add_option("--tls-server-name", flags.tls_server_name,
                 "Name that the server's certificate must hold, when it is not that of --server (a port-forward)")
      ->type_name("NAME");
  certificate->needs(key);
  key->needs(certificate);
  ca->excludes(tls);
  app.add_option("--token-file", flags.token_file, "The first line is the token to show to the server")
      ->type_name("FILE");
  app.parse_complete_callback([&flags] { CheckConnectionFlags(flags); });
  app.add_flag("--wait", flags.wait, "Wait for a server that is not up yet, for as long as --timeout");
  app.add_flag("--follow-health", flags.follow_health,
               "Send nothing to addresses whose health is NOT_SERVING, as it is before a server stops "
               "(ckn serve --lame-duck-ms); with ipv4:A:PORT,B:PORT always so");
  app.add_option("--max-message-mib", flags.max_message_mib, "Size of a request or a reply, in MiB")
      ->type_name("MIB")
      ->check(CLI::Range(1, 2047))
      ->capture_default_str();
}

absl::StatusOr<ClientOptions> ReadClientOptions(const ConnectionFlags& flags) {
  ClientOptions options{.timeout = absl::Seconds(flags.timeout_seconds),
                        .max_message_bytes = std::int64_t{flags.max_message_mib} << 20,
                        .wait_for_ready = flags.wait,
                        .follow_health = flags.follow_health};
  if (flags.tls || !flags.tls_ca.empty()) {
    ClientTls tls;
    CKN_ASSIGN_OR_RETURN(tls.server_ca, ReadText(flags.tls_ca));
    tls.server_name = flags.tls_server_name;
    CKN_ASSIGN_OR_RETURN(tls.certificate, ReadText(flags.tls_cert));
    CKN_ASSIGN_OR_RETURN(tls.key, ReadText(flags.tls_key));
    options.tls = std::move(tls);
  }
  CKN_ASSIGN_OR_RETURN(options.token, ReadText(flags.token_file));
  options.token.erase(
      std::find_if(options.token.begin(), options.token.end(), [](char c) { return c == '\r' || c == '\n'; }),
      options.token.end());
  return options;
}

}  // namespace ckn
