// ckn-client load: measures a server under a load of a given kind.
#include "client/load_command.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/exit_code.h"
#include "client/image_files.h"
#include "client/load/load_report.h"
#include "client/load/load_requests.h"
#include "client/load/load_run.h"
#include "server/base/number_between.h"
#include "server/base/quote.h"
#include "server/base/status.h"

namespace ckn {
namespace {

constexpr double kDefaultSeconds = 10;
constexpr int kDefaultClosedInFlight = 1;
constexpr int kDefaultOpenInFlight = 10000;
// Of different noise; all the same image would be kind to a server that remembers replies.
constexpr int kNoiseImages = 16;

struct LoadFlags {
  std::vector<std::string> images;
  std::string pixels;  // "HxWxC"
  std::string method = "classify", protocol = "ckn", arrivals = "constant";
  RequestOptions request;  // but for method and protocol
  std::optional<double> rate, seconds;
  std::optional<int> in_flight;
  std::optional<std::int64_t> calls;
  std::uint64_t seed = 1;
  int connections = 1, threads = 1;
  std::vector<std::string> tolerate;
  bool json = false;
};

struct PixelSize {
  int height = 0, width = 0, channels = 0;
};

std::optional<PixelSize> ParsePixelSize(const std::string& text) {
  PixelSize size;
  int end = 0;
  const bool parsed =
      std::sscanf(text.c_str(), "%5dx%5dx%1d%n", &size.height, &size.width, &size.channels, &end) == 3 &&
      end == static_cast<int>(text.size());
  if (!parsed || size.height < 1 || size.width < 1 || (size.channels != 1 && size.channels != 3)) return std::nullopt;
  return size;
}

absl::StatusOr<PixelSize> AskForPixelSize(const LoadPlan& plan) {
  const Client client(plan.server, plan.client);
  v1::GetModelRequest request;
  request.set_model(plan.request.model);
  request.set_version(plan.request.model_version);
  const absl::StatusOr<v1::GetModelResponse> response = client.GetModel(request);
  if (absl::IsUnimplemented(response.status())) {
    return absl::UnimplementedError("the server does not tell the size of the model's images; give images or --pixels");
  }
  CKN_RETURN_IF_ERROR(response.status());
  const v1::ModelInfo& info = response->info();
  return PixelSize{info.height(), info.width(), info.channels()};
}

absl::StatusOr<std::vector<v1::Image>> MakeImages(const LoadFlags& flags, const LoadPlan& plan) {
  std::vector<v1::Image> images;
  if (!flags.images.empty()) {
    CKN_ASSIGN_OR_RETURN(const std::vector<std::string> files, ExpandImagePaths(flags.images));
    for (const std::string& file : files) {
      absl::StatusOr<std::string> bytes = ReadFileBytes(file, plan.client.max_message_bytes);
      if (!bytes.ok()) return Annotate(bytes.status(), file);
      images.emplace_back().set_encoded(*std::move(bytes));
    }
    return images;
  }
  PixelSize size;
  if (flags.pixels.empty()) {
    CKN_ASSIGN_OR_RETURN(size, AskForPixelSize(plan));
  } else {
    size = *ParsePixelSize(flags.pixels);  // checked before
  }
  for (int i = 0; i < kNoiseImages; ++i) {
    images.push_back(NoiseImage(size.height, size.width, size.channels, static_cast<std::uint64_t>(i)));
  }
  return images;
}

LoadPlan MakePlan(const LoadFlags& flags, const std::string& server, const ClientOptions& client) {
  LoadPlan plan{.server = server,
                .client = client,
                .connections = flags.connections,
                .threads = flags.threads,
                .request = flags.request,
                .rate = flags.rate,
                .arrivals = flags.arrivals == "poisson" ? Arrivals::kPoisson : Arrivals::kConstant,
                .seed = flags.seed,
                .in_flight = flags.in_flight.value_or(flags.rate ? kDefaultOpenInFlight
                                                                 : std::max(kDefaultClosedInFlight, flags.connections)),
                .tolerated = {}};
  plan.request.method = flags.method == "encode" ? LoadMethod::kEncode : LoadMethod::kClassify;
  plan.request.protocol = flags.protocol == "oip" ? LoadProtocol::kOpenInference : LoadProtocol::kNative;
  if (flags.calls) plan.calls = *flags.calls;
  if (flags.seconds || !flags.calls) plan.duration = absl::Seconds(flags.seconds.value_or(kDefaultSeconds));
  for (const std::string& name : flags.tolerate) plan.tolerated.insert(*ParseStatusCode(name));  // checked before
  return plan;
}

int Run(const LoadFlags& flags, const ConnectionFlags& connection) {
  const absl::StatusOr<ClientOptions> client = ReadClientOptions(connection);
  if (!client.ok()) return Fail(client.status());
  const LoadPlan plan = MakePlan(flags, connection.server, *client);
  const auto run = [&]() -> absl::StatusOr<LoadResult> {
    CKN_ASSIGN_OR_RETURN(const std::vector<v1::Image> images, MakeImages(flags, plan));
    CKN_ASSIGN_OR_RETURN(const auto requests, MakeRequests(plan.request, images, plan.client.max_message_bytes));
    return RunLoad(plan, requests);
  };
  const absl::StatusOr<LoadResult> result = run();
  if (!result.ok()) return Fail(result.status());
  const int printed = PrintResult(flags.json ? LoadJson(plan, *result) : LoadTable(plan, *result));
  if (const std::string failures = LoadFailures(*result, plan.tolerated); !failures.empty()) {
    PrintError(failures);
    return kFailed;
  }
  return printed;
}

// What CLI11 cannot say.
void CheckFlags(const LoadFlags& flags) {
  if (flags.request.stream && flags.protocol != "oip") {
    throw CLI::ValidationError("--stream", "only with --protocol oip");
  }
  if (!flags.rate && flags.in_flight && *flags.in_flight < flags.connections) {
    throw CLI::ValidationError("--in-flight", absl::StrCat("expected at least as many as --connections, ",
                                                           flags.connections, ", got ", *flags.in_flight));
  }
  if (flags.threads > flags.connections) {
    throw CLI::ValidationError("--threads", absl::StrCat("expected at most as many as --connections, ",
                                                         flags.connections, ", got ", flags.threads));
  }
}

}  // namespace

void AddLoadCommand(CLI::App& app, const ConnectionFlags& connection, int& exit_code) {
  auto flags = std::make_shared<LoadFlags>();
  CLI::App* const command = app.add_subcommand("load", "Put load on the server, and measure rates and latencies");
  command->footer(
      "Closed loop, without --rate: calls are sent one after another, with --in-flight of them at a time; after a "
      "call\n"
      "that failed, its place pauses for 10 ms. The rate is what the server can do with so many callers.\n"
      "Open loop, with --rate: calls are sent at times that are fixed in advance, whatever becomes of those before. A\n"
      "latency begins when its call was to be sent, so waiting counts also where it kept the client from sending.\n"
      "How late calls were sent is printed: when that is much, the client or its machine was the limit.\n"
      "Each call may take --timeout seconds. Requests are made before the clock starts, and so is one call on each\n"
      "connection; when that fails, its error is all that is printed.\n"
      "Quantiles are above the true ones by at most 1/128 of their value; the largest latency is exact.\n"
      "Exit codes: 0 done; 1 calls or images failed, see --tolerate; 2 wrong use.\n"
      "JSON keys: server, protocol, method, stream, model, version, images_per_call, connections, threads, loop,\n"
      "  in_flight, rate, arrivals, seconds, calls, calls_per_second and images_per_second (those that succeeded),\n"
      "  codes: {CODE: {calls, message, mean_ms, min_ms, p50_ms, p90_ms, p99_ms, p99_9_ms, max_ms,\n"
      "  histogram_ns: [[from, to, calls]]}}, images: {CODE: count}, late: {mean_ms, ...}, client_cpu_seconds.\n"
      "Examples:\n"
      "  ckn-client load --model mnist --in-flight 16\n"
      "  ckn-client load digits/ --model mnist --rate 2000 --arrivals poisson --duration 60 --json\n"
      "  ckn-client load --model mnist --protocol oip --stream --batch 64 --in-flight 8 --calls 1000");
  CLI::Option* const images =
      command
          ->add_option("images", flags->images,
                       "Image files, or folders of them, sent in turn (default: noise of the model's size, as pixels)")
          ->type_name("IMAGE");
  command->add_option("--pixels", flags->pixels, "Noise of this size instead, as raw pixels: height, width, channels")
      ->check([](const std::string& text) {
        return ParsePixelSize(text) ? std::string()
                                    : absl::StrCat("got ", Quote(text), ", expected HxWxC with 1 or 3 for C, 28x28x1");
      })
      ->excludes(images)
      ->type_name("HxWxC");
  command->add_option("--model", flags->request.model, "Model to ask (default: the server's, when it has only one)")
      ->type_name("NAME");
  command->add_option("--model-version", flags->request.model_version, "Version of the model (default: the latest)")
      ->type_name("V");
  command->add_option("--method", flags->method, "What to ask for: classes or features")
      ->check(CLI::IsMember({"classify", "encode"}))
      ->capture_default_str()
      ->type_name("NAME");
  command->add_option("--protocol", flags->protocol, "ckn.v1, or the Open Inference Protocol")
      ->check(CLI::IsMember({"ckn", "oip"}))
      ->capture_default_str()
      ->type_name("NAME");
  command->add_flag("--stream", flags->request.stream,
                    "One stream a connection (ModelStreamInfer) instead of one RPC a call; with --protocol oip");
  command->add_option("--batch", flags->request.batch, "Images a call")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--rate", flags->rate, "Calls a second: makes it an open loop")
      ->check(NumberBetween(0.001, 1e7))
      ->type_name("R");
  command
      ->add_option("--arrivals", flags->arrivals, "Times between calls of an open loop: all the same, or exponential")
      ->check(CLI::IsMember({"constant", "poisson"}))
      ->capture_default_str()
      ->type_name("NAME");
  command->add_option("--seed", flags->seed, "Of the exponential times")->capture_default_str()->type_name("N");
  command
      ->add_option("--in-flight", flags->in_flight,
                   absl::StrCat("Calls at a time; of an open loop the most that may wait (default: one a connection, "
                                "of an open loop ",
                                kDefaultOpenInFlight, ")"))
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  command
      ->add_option(
          "--duration", flags->seconds,
          absl::StrCat(
              "Seconds in which calls are sent; of an open loop, in which they are due, and all of those are sent, "
              "however late (default: ",
              kDefaultSeconds, ", or no limit with --calls)"))
      ->check(NumberBetween(0.001, 1e7))
      ->type_name("SECONDS");
  command->add_option("--calls", flags->calls, "Calls to send; with --duration, whichever comes first")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->type_name("N");
  command->add_option("--connections", flags->connections, "Connections, over which calls are spread evenly")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--threads", flags->threads, "Threads that receive replies")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--tolerate", flags->tolerate,
                   "Codes that are no failure of the run, such as RESOURCE_EXHAUSTED for a load that is too much")
      ->delimiter(',')
      ->check([](const std::string& name) {
        return ParseStatusCode(name) ? std::string()
                                     : absl::StrCat("got ", Quote(name), ", expected a gRPC code such as UNAVAILABLE");
      })
      ->type_name("CODE,...");
  command->add_flag("--json", flags->json, "Print JSON, with the whole histogram of latencies");
  command->callback([flags, &connection, &exit_code] {
    CheckFlags(*flags);
    exit_code = Run(*flags, connection);
  });
}

}  // namespace ckn
