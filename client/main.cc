// ckn-client: classifies and encodes image files on a server.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/bulk.h"
#include "client/client.h"
#include "client/image_files.h"
#include "client/output.h"
#include "server/base/host_port.h"
#include "server/base/npy.h"
#include "server/base/quote.h"
#include "server/base/regular_file.h"
#include "server/base/status.h"

namespace ckn {
namespace {

struct Flags {
  std::string server = "127.0.0.1:8500";
  double timeout_seconds = 60;
  bool wait = false;
  int max_message_mib = 64;
  bool tls = false;
  std::string tls_ca, tls_cert, tls_key, token_file;

  std::vector<std::string> images;
  std::string model, model_version;
  int batch = 32;
  int top_k = 1;
  bool json = false;
  std::string out;
};

// Exit codes of the program.
constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

void PrintError(const std::string& line) { std::fprintf(stderr, "ckn-client: %s\n", line.c_str()); }

int Fail(const absl::Status& status) {
  const absl::string_view message = status.message();
  PrintError(absl::StrCat(absl::StatusCodeToString(status.code()), ": ", Printable({message.data(), message.size()})));
  return kFailed;
}

// A full disk or a closed pipe is a failure.
int PrintResult(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return kDone;
  PrintError("cannot write to standard output");
  return kFailed;
}

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
  const auto read = [&]() -> absl::StatusOr<std::string> {
    CKN_ASSIGN_OR_RETURN(RegularFile file, RegularFile::Open(path));
    std::string text(file.size(), '\0');
    CKN_ASSIGN_OR_RETURN(const std::size_t got, file.Read(std::as_writable_bytes(std::span(text))));
    text.resize(got);
    return text;
  };
  absl::StatusOr<std::string> text = read();
  if (!text.ok()) return Annotate(text.status(), path);
  return text;
}

absl::StatusOr<Client> MakeClient(const Flags& flags) {
  ClientOptions options{.timeout = absl::Seconds(flags.timeout_seconds),
                        .max_message_bytes = std::int64_t{flags.max_message_mib} << 20,
                        .wait_for_ready = flags.wait};
  if (flags.tls || !flags.tls_ca.empty()) {
    ClientTls tls;
    CKN_ASSIGN_OR_RETURN(tls.server_ca, ReadText(flags.tls_ca));
    CKN_ASSIGN_OR_RETURN(tls.certificate, ReadText(flags.tls_cert));
    CKN_ASSIGN_OR_RETURN(tls.key, ReadText(flags.tls_key));
    options.tls = std::move(tls);
  }
  CKN_ASSIGN_OR_RETURN(options.token, ReadText(flags.token_file));
  options.token.erase(
      std::find_if(options.token.begin(), options.token.end(), [](char c) { return c == '\r' || c == '\n'; }),
      options.token.end());
  return Client(flags.server, options);
}

BulkOptions MakeBulkOptions(const Flags& flags) {
  return {.model = flags.model,
          .version = flags.model_version,
          .batch = flags.batch,
          .top_k = flags.top_k,
          .max_message_bytes = std::int64_t{flags.max_message_mib} << 20};
}

template <typename Result>
int PrintFailures(const BulkResult<Result>& bulk) {
  const std::vector<std::string> lines = FailureLines(bulk);
  for (const std::string& line : lines) PrintError(line);
  const auto failed = std::ranges::count_if(bulk.files, [](const auto& file) { return !file.status.ok(); });
  if (failed == 0) return kDone;
  PrintError(absl::StrCat(failed, " of ", bulk.files.size(), " images failed"));
  return kFailed;
}

int Classify(const Flags& flags) {
  const auto files = ExpandImagePaths(flags.images);
  if (!files.ok()) return Fail(files.status());
  const absl::StatusOr<Client> client = MakeClient(flags);
  if (!client.ok()) return Fail(client.status());
  const auto bulk = ClassifyFiles(*client, *files, MakeBulkOptions(flags));
  const int printed = PrintResult(flags.json ? ClassifyJson(bulk) : ClassifyTable(bulk));
  const int failures = PrintFailures(bulk);
  return printed != kDone ? printed : failures;
}

int Encode(const Flags& flags) {
  const auto files = ExpandImagePaths(flags.images);
  if (!files.ok()) return Fail(files.status());
  const absl::StatusOr<Client> client = MakeClient(flags);
  if (!client.ok()) return Fail(client.status());
  const auto bulk = EncodeFiles(*client, *files, MakeBulkOptions(flags));
  int written = kDone;
  if (!flags.out.empty()) {
    if (const auto array = ToFeatureArray(bulk); array.ok()) {
      const absl::Status status = WriteNpy(flags.out, array->values, array->shape);
      if (!status.ok()) written = Fail(status);
    }
  } else {
    written = PrintResult(flags.json ? EncodeJson(bulk) : EncodeTable(bulk));
  }
  const int failures = PrintFailures(bulk);
  return written != kDone ? written : failures;
}

int ListModels(const Flags& flags) {
  const absl::StatusOr<Client> client = MakeClient(flags);
  if (!client.ok()) return Fail(client.status());
  const auto response = client->ListModels();
  if (!response.ok()) return Fail(response.status());
  return PrintResult(flags.json ? ModelsJson(*response) : ModelsTable(*response));
}

int CheckHealth(const Flags& flags) {
  const absl::StatusOr<Client> client = MakeClient(flags);
  if (!client.ok()) return Fail(client.status());
  const absl::Status health = client->CheckHealth(flags.model);
  return health.ok() ? PrintResult("SERVING\n") : Fail(health);
}

void AddImageOptions(CLI::App& command, Flags& flags) {
  command.add_option("images", flags.images, "Image files, or folders: the image files in them, sorted by name")
      ->type_name("IMAGE")
      ->required();
  command.add_option("--model", flags.model, "Model to ask (default: the server's, when it has only one)")
      ->type_name("NAME");
  command.add_option("--model-version", flags.model_version, "Version of the model (default: the latest)")
      ->type_name("V");
  command.add_option("--batch", flags.batch, "Images a call")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
}

int Run(int argc, char** argv) {
  Flags flags;
  int exit_code = kDone;
  CLI::App app("Classify and encode images on a CKN server.");
  app.set_version_flag("--version", CKN_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // options of the program may also come after the subcommand
  app.footer(
      "Exit codes: 0 done; 1 failed, also when only some images did (each is named on stderr); 2 wrong use.\n"
      "JSON keys:\n"
      "  classify  {model, version, results: [{file, classes: [{index, label, score, probability}],\n"
      "             novelty: {residual, rank}} or {file, error: {code, message}}]}\n"
      "  encode    {model, version, results: [{file, features: [number], novelty} or {file, error}]}\n"
      "  models    {models: [{name, version, height, width, channels, features, classes, sha256, dataset,\n"
      "             validation_error_percent, test_error_percent}]}");
  app.add_option("--server", flags.server, "Address of the server")
      ->type_name("HOST:PORT")
      ->check(CheckServer)
      ->capture_default_str();
  app.add_option("--timeout", flags.timeout_seconds, "Seconds that one call may take")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  CLI::Option* const tls = app.add_flag("--tls", flags.tls, "TLS, with the authorities that the system trusts");
  CLI::Option* const ca =
      app.add_option("--tls-ca", flags.tls_ca, "TLS, with the authorities of this file")->type_name("PEM");
  CLI::Option* const certificate =
      app.add_option("--tls-cert", flags.tls_cert, "Certificate to show to the server")->type_name("PEM");
  CLI::Option* const key = app.add_option("--tls-key", flags.tls_key, "Its private key")->type_name("PEM");
  certificate->needs(key);
  key->needs(certificate);
  ca->excludes(tls);
  app.add_option("--token-file", flags.token_file, "The first line is the token to show to the server")
      ->type_name("FILE");
  app.add_flag("--wait", flags.wait, "Wait for a server that is not up yet, for as long as --timeout");
  app.add_option("--max-message-mib", flags.max_message_mib, "Size of a request or a reply, in MiB")
      ->type_name("MIB")
      ->check(CLI::Range(1, 2047))
      ->capture_default_str();

  CLI::App* const classify = app.add_subcommand("classify", "The most likely classes of images, with their scores");
  AddImageOptions(*classify, flags);
  classify->add_option("--top-k", flags.top_k, "Classes an image, best first")
      ->type_name("K")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  classify->add_flag("--json", flags.json, "Print JSON");
  classify->callback([&] { exit_code = Classify(flags); });

  CLI::App* const encode = app.add_subcommand("encode", "The feature vectors of images");
  AddImageOptions(*encode, flags);
  CLI::Option* const out =
      encode
          ->add_option("--out", flags.out,
                       "Write a NumPy array, float32 [images][features]; the row of an image that failed is NaN")
          ->type_name("F.npy");
  encode->add_flag("--json", flags.json, "Print JSON")->excludes(out);
  encode->callback([&] { exit_code = Encode(flags); });

  CLI::App* const models = app.add_subcommand("models", "The models that the server has loaded");
  models->add_flag("--json", flags.json, "Print JSON");
  models->callback([&] { exit_code = ListModels(flags); });

  CLI::App* const health = app.add_subcommand("health", "Whether the server is SERVING: exit code 0, else 1");
  health->add_option("--model", flags.model, "Ask for this model (default: the server as a whole)")->type_name("NAME");
  health->callback([&] { exit_code = CheckHealth(flags); });

  // CLI11 would only say that a subcommand is required.
  if (argc > 1 && argv[1][0] != '-' &&
      app.get_subcommands([&](const CLI::App* sub) { return sub->check_name(argv[1]); }).empty()) {
    PrintError(absl::StrCat("unknown command \"", argv[1], "\", see ckn-client --help"));
    return kWrongUse;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUse;
  }
  return exit_code;
}

}  // namespace
}  // namespace ckn

int main(int argc, char** argv) {
  try {
    return ckn::Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ckn-client: %s\n", error.what());
    return 1;
  }
}
