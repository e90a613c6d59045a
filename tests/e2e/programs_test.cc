// The two programs as a user runs them: `ckn serve` and `ckn-client` in processes of their own.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/pipeline.h"
#include "server/store/model_file.h"
#include "tests/e2e/health_client.h"
#include "tests/e2e/process.h"
#include "tests/testing/http_get.h"
#include "tests/testing/prometheus_text.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::ckn::testing::EncodePnm;
using ::ckn::testing::Finished;
using ::ckn::testing::HealthClient;
using ::ckn::testing::HttpGet;
using ::ckn::testing::ParsePrometheusText;
using ::ckn::testing::Process;
using ::ckn::testing::RunProgram;
using ::ckn::testing::TempDir;
using ::ckn::testing::TinyImage;
using ::ckn::testing::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

// `ckn serve` on free ports, with a tiny model.
class ProgramsTest : public ::testing::Test {
 protected:
  ProgramsTest() { EXPECT_TRUE(WriteModelFile(model_, folder_.File("tiny.ckn")).ok()); }

  void Start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {CKN_BINARY, "serve",       "--models", folder_.path(),
                                        "--listen", "127.0.0.1:0", "--http",   "127.0.0.1:0"};
    command.insert(command.end(), more.begin(), more.end());
    server_ = std::make_unique<Process>(command);
    ASSERT_TRUE(server_->WaitForStderr("serving gRPC on ")) << server_->Stderr();
    const std::string log = server_->Stderr();
    ASSERT_EQ(
        std::sscanf(log.substr(log.find("serving gRPC on ")).c_str(), "serving gRPC on 127.0.0.1:%d", &grpc_port_), 1);
    ASSERT_EQ(std::sscanf(log.substr(log.find("http://")).c_str(), "http://127.0.0.1:%d", &http_port_), 1);
    address_ = absl::StrCat("127.0.0.1:", grpc_port_);
  }

  Finished RunClient(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {CKN_CLIENT_BINARY, "--server", address_};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunProgram(command);
  }

  std::string WriteImage(const std::string& name, int seed) {
    return images_.Write(name, EncodePnm(TinyImage(model_, static_cast<std::uint64_t>(seed))));
  }

  // "class N" that the model gives the image.
  std::string Label(int seed) {
    const auto pipeline = Pipeline::Create(model_);
    const auto scores = pipeline->Classify(TinyImage(model_, static_cast<std::uint64_t>(seed)));
    return absl::StrCat("class ", ArgMax(*scores));
  }

  const Model model_ = TinyModel();
  TempDir folder_;
  TempDir images_;
  std::unique_ptr<Process> server_;
  int grpc_port_ = 0;
  int http_port_ = 0;
  std::string address_;
};

TEST_F(ProgramsTest, ServesUntilSigtermAndExitsWithZero) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const Client client(address_);
  EXPECT_TRUE(client.ListModels().ok());
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Stderr();
  EXPECT_THAT(server_->Stderr(), AllOf(HasSubstr("\"tiny\" version 1: input 8x8x1, 36 features, 3 classes"),
                                       HasSubstr("SIGTERM"), HasSubstr("stopped")));
  EXPECT_THAT(server_->Stdout(), IsEmpty());
}

TEST_F(ProgramsTest, SigintStopsToo) {
  ASSERT_NO_FATAL_FAILURE(Start());
  server_->Signal(SIGINT);
  EXPECT_EQ(server_->Wait(), 0) << server_->Stderr();
}

TEST_F(ProgramsTest, AccessLogHasALineForEachCall) {
  ASSERT_NO_FATAL_FAILURE(Start({"--access-log", "json"}));
  ASSERT_EQ(RunClient({"classify", WriteImage("a.pgm", 1), WriteImage("b.pgm", 2)}).exit_code, 0);
  ASSERT_EQ(RunClient({"classify", WriteImage("a.pgm", 1), "--model", "nobody"}).exit_code, 1);
  server_->Signal(SIGTERM);
  ASSERT_EQ(server_->Wait(), 0);
  std::vector<nlohmann::json> lines;
  for (const absl::string_view line : absl::StrSplit(server_->Stdout(), '\n', absl::SkipEmpty())) {
    lines.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["method"], "Classify");
  EXPECT_EQ(lines[0]["status"], "OK");
  EXPECT_EQ(lines[0]["model"], "tiny");
  EXPECT_EQ(lines[0]["images"], 2);
  EXPECT_GT(lines[0]["bytes"], 2 * 64);
  EXPECT_GT(lines[0]["compute_ms"], 0);
  EXPECT_GE(lines[0]["total_ms"], lines[0]["queue_ms"]);
  EXPECT_EQ(lines[1]["status"], "NOT_FOUND");
  EXPECT_EQ(lines[1]["model"], "nobody") << "what was asked for";
  EXPECT_EQ(lines[1]["images"], 1);
  EXPECT_GT(lines[1]["bytes"], 64);
}

TEST_F(ProgramsTest, SighupBringsInNewModelsAndKeepsTheOldOnesOfBadFiles) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const Client client(address_);
  ASSERT_TRUE(WriteModelFile(TinyModel({.name = "second"}), folder_.File("second.ckn")).ok());
  EXPECT_EQ(client.ListModels()->models_size(), 1);
  server_->Signal(SIGHUP);
  ASSERT_TRUE(server_->WaitForStderr("loaded model \"second\" version 1")) << server_->Stderr();
  EXPECT_EQ(client.ListModels()->models_size(), 2);
  folder_.Write("second.ckn", "broken");
  server_->Signal(SIGHUP);
  ASSERT_TRUE(server_->WaitForStderr("what was there goes on serving")) << server_->Stderr();
  EXPECT_THAT(server_->Stderr(), HasSubstr("second.ckn"));
  EXPECT_EQ(client.ListModels()->models_size(), 2);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Stderr();
}

TEST_F(ProgramsTest, AWatchedFolderNeedsNoSignal) {
  ASSERT_NO_FATAL_FAILURE(Start({"--watch-seconds", "1"}));
  ASSERT_TRUE(WriteModelFile(TinyModel({.name = "second"}), folder_.File("second.ckn")).ok());
  EXPECT_TRUE(server_->WaitForStderr("loaded model \"second\" version 1")) << server_->Stderr();
}

TEST_F(ProgramsTest, SigtermUnderLoadLosesNoCallThatWasTaken) {
  ASSERT_NO_FATAL_FAILURE(Start({"--drain-timeout-ms", "3600000"}));
  constexpr int kThreads = 4;
  std::vector<int> good(kThreads);
  std::vector<absl::Status> last(kThreads);
  {
    std::vector<std::thread> callers;
    callers.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      callers.emplace_back([&, i] {
        const Client client(address_);
        v1::ClassifyRequest request;
        for (int k = 0; k < 16; ++k) {
          request.add_images()->set_encoded(EncodePnm(TinyImage(model_, static_cast<std::uint64_t>(k))));
        }
        const auto slot = static_cast<std::size_t>(i);
        while ((last[slot] = client.Classify(request).status()).ok()) ++good[slot];
      });
    }
    const auto served = [&] {
      return ParsePrometheusText(HttpGet(http_port_, "/metrics").body)
          .at(R"(ckn_requests_total{code="OK",method="Classify"})");
    };
    while (served() < 20) std::this_thread::yield();
    server_->Signal(SIGTERM);
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(server_->Wait(), 0) << server_->Stderr();
  // Each call that the server took was answered. The one error of each caller is that of a call which came too late:
  // gRPC refuses it, or resets it when it was on the wire.
  for (const absl::Status& status : last) {
    EXPECT_THAT(status.code(), ::testing::AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kCancelled))
        << status;
  }
  const int answered = std::accumulate(good.begin(), good.end(), 0);
  EXPECT_THAT(server_->Stderr(), HasSubstr(absl::StrCat("calls taken since the start: ", answered, "\n")));
  EXPECT_THAT(server_->Stderr(), ::testing::Not(HasSubstr("failed")));
}

TEST_F(ProgramsTest, LameDuckServesWhileNotReadyAndASecondSignalEndsIt) {
  ASSERT_NO_FATAL_FAILURE(Start({"--lame-duck-ms", "3600000"}));
  HealthClient health(grpc_port_);
  const auto watch = health.StartWatch("");
  EXPECT_EQ(watch->Next(), HealthClient::kServing);
  EXPECT_EQ(HttpGet(http_port_, "/readyz").code, 200);
  server_->Signal(SIGTERM);
  EXPECT_EQ(watch->Next(), HealthClient::kNotServing);
  EXPECT_EQ(HttpGet(http_port_, "/readyz").code, 503);
  EXPECT_EQ(HttpGet(http_port_, "/healthz").code, 200);
  EXPECT_EQ(ParsePrometheusText(HttpGet(http_port_, "/metrics").body).at("ckn_ready"), 0);
  EXPECT_EQ(health.Check("ckn.v1.Inference"), HealthClient::kNotServing);
  const Finished stopping = RunClient({"health"});
  EXPECT_EQ(stopping.exit_code, 1);
  EXPECT_THAT(stopping.err, HasSubstr("got status NOT_SERVING, expected SERVING"));
  // Who has not noticed yet is still served.
  const Client client(address_);
  EXPECT_TRUE(client.ListModels().ok());
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 1);
  EXPECT_THAT(server_->Stderr(), HasSubstr("second signal"));
}

TEST_F(ProgramsTest, TakenPortsAreAClearErrorAndExitCodeOne) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const Finished grpc =
      RunProgram({CKN_BINARY, "serve", "--models", folder_.path(), "--listen", address_, "--http", "127.0.0.1:0"});
  EXPECT_EQ(grpc.exit_code, 1);
  EXPECT_THAT(grpc.err, AllOf(HasSubstr("gRPC port"), HasSubstr(address_), HasSubstr("in use")));
  const std::string http_address = absl::StrCat("127.0.0.1:", http_port_);
  const Finished http =
      RunProgram({CKN_BINARY, "serve", "--models", folder_.path(), "--listen", "127.0.0.1:0", "--http", http_address});
  EXPECT_EQ(http.exit_code, 1);
  EXPECT_THAT(http.err, AllOf(HasSubstr("HTTP port"), HasSubstr(http_address), HasSubstr("in use")));
}

TEST_F(ProgramsTest, UnusableModelsAreExitCodeOneWithTheReason) {
  const Finished missing = RunProgram(
      {CKN_BINARY, "serve", "--models", folder_.File("nowhere"), "--listen", "127.0.0.1:0", "--http", "off"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("nowhere"));
  folder_.Write("broken.ckn", "not a model");
  const Finished broken =
      RunProgram({CKN_BINARY, "serve", "--models", folder_.path(), "--listen", "127.0.0.1:0", "--http", "off"});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.err, HasSubstr("broken.ckn"));
}

TEST(ServeFlagsTest, WrongUseIsExitCodeTwoAndSaysWhatWasExpected) {
  const auto serve = [](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {CKN_BINARY, "serve"};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunProgram(command);
  };
  for (const auto& [flags, expected] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--listen", "8500"}, "expected HOST:PORT"},
           {{"--http", "localhost:x"}, "expected HOST:PORT"},
           {{"--threads", "-1"}, "0 to 1024"},
           {{"--threads", "many"}, "--threads"},
           {{"--queue", "-1"}, "--queue"},
           {{"--max-message-mib", "4096"}, "1 to 2047"},
           {{"--drain-timeout-ms", "-5"}, "--drain-timeout-ms"},
           {{"--max-in-flight-mib", "32"}, "--max-message-mib: got 64, expected at most --max-in-flight-mib, 32"},
           {{"--slow-ms", "5", "--access-log", "off"}, "--slow-ms: has no effect without --access-log"},
           {{"--log-level", "loud"}, "info"},
           {{"--no-such-flag"}, "--no-such-flag"},
       }) {
    const Finished result = serve(flags);
    EXPECT_EQ(result.exit_code, 2) << flags[0];
    EXPECT_THAT(result.err, HasSubstr(expected));
    EXPECT_THAT(result.out, IsEmpty());
  }
  const Finished help = serve({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--drain-timeout-ms"));
}

class ServeSettingsTest : public ::testing::Test {
 protected:
  ~ServeSettingsTest() override { unsetenv("CKN_MAX_IMAGES"); }
  Finished Serve(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {CKN_BINARY, "serve"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunProgram(command);
  }
  TempDir folder_;
};

TEST_F(ServeSettingsTest, OptionsCountBeforeTheEnvironmentAndThatBeforeTheFile) {
  const std::string file =
      folder_.Write("ckn.conf", "# limits\nmax-images = 7   # images\n\nqueue=3\nmodel-control = true\n");
  EXPECT_THAT(Serve({"--print-config", "--config", file}).out,
              AllOf(HasSubstr("max-images = 7\n"), HasSubstr("queue = 3\n"), HasSubstr("model-control = true\n"),
                    HasSubstr("listen = 127.0.0.1:8500\n"), HasSubstr("# tls-cert =\n")));
  setenv("CKN_MAX_IMAGES", "8", 1);
  EXPECT_THAT(Serve({"--print-config", "--config=" + file}).out, HasSubstr("max-images = 8\n"));
  EXPECT_THAT(Serve({"--print-config", "--config", file, "--max-images", "9"}).out, HasSubstr("max-images = 9\n"));
}

TEST_F(ServeSettingsTest, PrecisionIsASettingLikeTheOthersAndOneOfTwo) {
  EXPECT_THAT(Serve({"--print-config"}).out, HasSubstr("precision = float32\n"));
  const std::string file = folder_.Write("ckn.conf", "precision = bfloat16\n");
  EXPECT_THAT(Serve({"--print-config", "--config", file}).out, HasSubstr("precision = bfloat16\n"));
  const Finished unknown = Serve({"--precision", "float16"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("--precision: float16 not in"), HasSubstr("bfloat16")));
}

TEST(ClientFlagsTest, OptionsOfTlsWantTls) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--tls-cert", "a.pem", "--tls-key", "a.key"}, {"--tls-server-name", "x"}}) {
    std::vector<std::string> command = {CKN_CLIENT_BINARY, "models"};
    command.insert(command.begin() + 1, flags.begin(), flags.end());
    const Finished result = RunProgram(command);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(flags[0] + ": has no effect without --tls or --tls-ca"));
  }
}

TEST_F(ServeSettingsTest, WhatIsPrintedCanBeRead) {
  const std::string printed = Serve({"--print-config", "--max-images", "5", "--access-log", "json"}).out;
  EXPECT_THAT(printed, HasSubstr("access-log = json\n"));
  EXPECT_EQ(Serve({"--print-config", "--config", folder_.Write("ckn.conf", printed)}).out, printed);
}

TEST_F(ServeSettingsTest, AVariableThatIsNoSettingIsRefusedUnlessItIsKubernetes) {
  const auto serve_with = [](const std::string& variable) {
    return RunProgram({"/usr/bin/env", variable + "=1", CKN_BINARY, "serve", "--print-config"});
  };
  for (const char* const wrong : {"CKN_MAX_IMAGE", "CKN_MAX-IMAGES", "CKN_", "CKN_PRINT_CONFIG", "CKN_HELP", "CKN_PORT",
                                  "CKN_HTTP_PORT", "CKN_MAX_TCP_CONNECTIONS"}) {
    const Finished refused = serve_with(wrong);
    EXPECT_EQ(refused.exit_code, 2) << wrong;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("environment"), HasSubstr(absl::StrCat("\"", wrong, "\"")))) << wrong;
  }
  for (const char* const other :
       {"CKN_DATA_DIR", "CKN_SERVICE_HOST", "CKN_SERVICE_PORT", "CKN_SERVICE_PORT_GRPC", "CKN_PORT_8500_TCP",
        "CKN_PORT_8500_TCP_ADDR", "CKN_HEADLESS_SERVICE_HOST", "MY_CKN_IMAGES"}) {
    EXPECT_EQ(serve_with(other).exit_code, 0) << other;
  }
  for (const char* const link : {"CKN_PORT=tcp://10.0.0.1:8500", "CKN_HEADLESS_PORT=udp://10.0.0.1:1"}) {
    EXPECT_EQ(RunProgram({"/usr/bin/env", link, CKN_BINARY, "serve", "--print-config"}).exit_code, 0) << link;
  }
}

TEST_F(ServeSettingsTest, ASettingWithoutAValueIsRefused) {
  const auto refused = [](const Finished& run, const std::string& place) {
    EXPECT_EQ(run.exit_code, 2) << place;
    EXPECT_THAT(run.err, HasSubstr(place + ": no value"));
  };
  for (const char* const variable : {"CKN_TOKEN_FILE", "CKN_MODEL_CONTROL", "CKN_MAX_IMAGES"}) {
    refused(RunProgram({"/usr/bin/env", absl::StrCat(variable, "="), CKN_BINARY, "serve", "--print-config"}),
            absl::StrCat("environment: ", variable));
  }
  refused(Serve({"--print-config", "--config", folder_.Write("ckn.conf", "queue = 3\nmodel-control =\n")}),
          "line 2: model-control");
  refused(Serve({"--print-config", "--config", folder_.Write("ckn.conf", "token-file = # none\n")}),
          "line 1: token-file");
}

TEST_F(ServeSettingsTest, WrongSettingsAreExitCodeTwoWithTheirPlace) {
  const Finished unknown = Serve({"--config", folder_.Write("ckn.conf", "queue = 3\nmax_images = 7\n")});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("ckn.conf: line 2"), HasSubstr("max_images = 7")));
  EXPECT_EQ(Serve({"--config", folder_.Write("ckn.conf", "help = true\n")}).exit_code, 2);
  const Finished range = Serve({"--config", folder_.Write("ckn.conf", "max-images = 0\n")});
  EXPECT_EQ(range.exit_code, 2);
  EXPECT_THAT(range.err, HasSubstr("--max-images"));
  EXPECT_THAT(Serve({"--config", folder_.File("nowhere")}).err, HasSubstr("nowhere"));
  setenv("CKN_MAX_IMAGES", "many", 1);
  EXPECT_EQ(Serve({"--print-config"}).exit_code, 2);
}

TEST_F(ProgramsTest, ClientClassifiesFilesAndFolders) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const std::string a = WriteImage("a.pgm", 1);
  const std::string b = WriteImage("b.pgm", 2);
  const Finished table = RunClient({"classify", a, b});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr(a + "  " + Label(1)), HasSubstr(b + "  " + Label(2))));
  EXPECT_THAT(table.err, IsEmpty());

  for (int i = 3; i < 60; ++i) WriteImage(absl::StrCat("c", i + 100, ".pgm"), i);
  const Finished json = RunClient({"classify", images_.path(), "--json", "--top-k", "2", "--batch", "7"});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  const Json parsed = Json::parse(json.out);
  EXPECT_EQ(parsed["model"], "tiny");
  ASSERT_EQ(parsed["results"].size(), 59U);
  for (int i = 0; i < 59; ++i) {
    const Json& result = parsed["results"][static_cast<std::size_t>(i)];
    EXPECT_EQ(result["classes"].size(), 2U);
    EXPECT_EQ(result["classes"][0]["label"], Label(i + 1)) << result["file"];
  }
}

TEST_F(ProgramsTest, ClientPrintsTheGoodImagesAndNamesTheBadOnes) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const std::string good = WriteImage("good.pgm", 1);
  const std::string bad = images_.Write("bad.png", "no image");
  const std::string missing = images_.File("missing.png");
  for (const char* batch : {"1", "32"}) {
    const Finished table = RunClient({"classify", bad, missing, good, "--batch", batch});
    EXPECT_EQ(table.exit_code, 1);
    EXPECT_THAT(table.out, AllOf(HasSubstr(good), HasSubstr(Label(1))));
    EXPECT_THAT(table.err, AllOf(HasSubstr(bad + ": INVALID_ARGUMENT: "), HasSubstr(missing + ": NOT_FOUND: "),
                                 HasSubstr("2 of 3 images failed")));
    EXPECT_THAT(table.err, ::testing::Not(HasSubstr("image 0: ")));
  }
  const Json json = Json::parse(RunClient({"classify", bad, good, "--json"}).out);
  EXPECT_EQ(json["results"][0]["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(json["results"][1]["classes"][0]["label"], Label(1));
}

TEST_F(ProgramsTest, ClientEncodesToNumpyAndJson) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const std::string a = WriteImage("a.pgm", 1);
  const std::string b = WriteImage("b.pgm", 2);
  const std::string npy = images_.File("features.npy");
  const Finished written = RunClient({"encode", a, b, "--out", npy});
  EXPECT_EQ(written.exit_code, 0) << written.err;
  std::ifstream file(npy, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(bytes.substr(0, 6), "\x93NUMPY");
  EXPECT_THAT(bytes, HasSubstr("(2, 36)"));

  const auto pipeline = Pipeline::Create(model_);
  ASSERT_TRUE(pipeline.ok());
  const Json json = Json::parse(RunClient({"encode", a, b, "--json"}).out);
  std::string expected;
  for (const int seed : {1, 2}) {
    const auto features = pipeline->Encode(TinyImage(model_, static_cast<std::uint64_t>(seed)));
    ASSERT_TRUE(features.ok());
    EXPECT_EQ(json["results"][static_cast<std::size_t>(seed - 1)]["features"].get<std::vector<float>>(), *features);
    expected.append(reinterpret_cast<const char*>(features->data()), features->size() * sizeof(float));
  }
  EXPECT_EQ(bytes.substr(bytes.size() - expected.size()), expected);

  const Finished table = RunClient({"encode", a});
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_THAT(table.out, HasSubstr("36 features"));
  EXPECT_EQ(RunClient({"encode", a, "--json", "--out", npy}).exit_code, 2);
}

TEST_F(ProgramsTest, ClientListsModels) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const Finished table = RunClient({"models"});
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_THAT(table.out, AllOf(HasSubstr("tiny"), HasSubstr("8x8x1"), HasSubstr("12.50 %")));
  const Json json = Json::parse(RunClient({"models", "--json"}).out);
  ASSERT_EQ(json["models"].size(), 1U);
  EXPECT_EQ(json["models"][0]["name"], "tiny");
  EXPECT_EQ(json["models"][0]["classes"], Json({"class 0", "class 1", "class 2"}));
}

TEST_F(ProgramsTest, ClientTellsHealthByItsExitCode) {
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"health"}, {"health", "--model", "tiny"}}) {
    const Finished serving = RunClient(arguments);
    EXPECT_EQ(serving.exit_code, 0) << serving.err;
    EXPECT_EQ(serving.out, "SERVING\n");
  }
  const Finished unknown = RunClient({"health", "--model", "nobody"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("NOT_FOUND"));
  EXPECT_THAT(unknown.out, IsEmpty());
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);
  const Finished nobody = RunClient({"health"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("UNAVAILABLE"));
}

TEST_F(ProgramsTest, ClientFailsWithOneWhenACallFails) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const std::string image = WriteImage("a.pgm", 1);
  const Finished unknown = RunClient({"classify", image, image, image, "--batch", "2", "--model", "nobody"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("NOT_FOUND"), HasSubstr("nobody")));
  EXPECT_THAT(unknown.err, HasSubstr("(3 images)"));  // told once, not once an image
  EXPECT_THAT(unknown.out, IsEmpty());
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);
  const Finished nobody = RunClient({"models"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("server 127.0.0.1:")));
}

TEST(ClientFlagsTest, WrongUseIsExitCodeTwo) {
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{},
                                             {"guess"},
                                             {"classify"},
                                             {"classify", "x.png", "--top-k", "0"},
                                             {"classify", "x.png", "--batch", "none"},
                                             {"models", "--nope"},
                                             {"models", "--server", "nowhere"},
                                             {"models", "--server", "localhost:0"},
                                             {"--timeout", "-1", "models"}}) {
    std::vector<std::string> command = {CKN_CLIENT_BINARY};
    command.insert(command.end(), flags.begin(), flags.end());
    const Finished result = RunProgram(command);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(flags);
    EXPECT_THAT(result.err, ::testing::Not(IsEmpty()));
    EXPECT_THAT(result.out, IsEmpty());
  }
  EXPECT_EQ(RunProgram({CKN_CLIENT_BINARY, "--help"}).exit_code, 0);
}

}  // namespace
}  // namespace ckn
