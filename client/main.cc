// ckn-client: classifies and encodes image files on a server, and puts load on it.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/bulk.h"
#include "client/client.h"
#include "client/connection_flags.h"
#include "client/exit_code.h"
#include "client/image_files.h"
#include "client/load_command.h"
#include "client/output.h"
#include "server/base/npy.h"

namespace ckn {
namespace {

struct Flags {
  ConnectionFlags connection;

  std::vector<std::string> images;
  std::string model, model_version;
  int batch = 32;
  int top_k = 1;
  bool json = false;
  std::string out;
};

BulkOptions MakeBulkOptions(const Flags& flags) {
  return {.model = flags.model,
          .version = flags.model_version,
          .batch = flags.batch,
          .top_k = flags.top_k,
          .max_message_bytes = std::int64_t{flags.connection.max_message_mib} << 20};
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
  const absl::StatusOr<ClientOptions> options = ReadClientOptions(flags.connection);
  if (!options.ok()) return Fail(options.status());
  const Client client(flags.connection.server, *options);
  const auto bulk = ClassifyFiles(client, *files, MakeBulkOptions(flags));
  const int printed = PrintResult(flags.json ? ClassifyJson(bulk) : ClassifyTable(bulk));
  const int failures = PrintFailures(bulk);
  return printed != kDone ? printed : failures;
}

int Encode(const Flags& flags) {
  const auto files = ExpandImagePaths(flags.images);
  if (!files.ok()) return Fail(files.status());
  const absl::StatusOr<ClientOptions> options = ReadClientOptions(flags.connection);
  if (!options.ok()) return Fail(options.status());
  const Client client(flags.connection.server, *options);
  const auto bulk = EncodeFiles(client, *files, MakeBulkOptions(flags));
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
  const absl::StatusOr<ClientOptions> options = ReadClientOptions(flags.connection);
  if (!options.ok()) return Fail(options.status());
  const Client client(flags.connection.server, *options);
  const auto response = client.ListModels();
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
  CLI::App app("Classify and encode images on a CKN server, or measure it under load.");
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
      "             validation_error_percent, test_error_percent}]}\n"
      "  load      see ckn-client load --help");
  AddConnectionOptions(app, flags.connection);

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

  AddLoadCommand(app, flags.connection, exit_code);
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
