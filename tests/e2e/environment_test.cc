// The programs in surroundings that are not the developer's.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/model_file.h"
#include "tests/e2e/process.h"
#include "tests/e2e/raw_connection.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::ckn::testing::EncodePnm;
using ::ckn::testing::Finished;
using ::ckn::testing::Process;
using ::ckn::testing::RunProgram;
using ::ckn::testing::TempDir;
using ::ckn::testing::TinyImage;
using ::ckn::testing::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class EnvironmentTest : public ::testing::Test {
 protected:
  EnvironmentTest() { EXPECT_TRUE(WriteModelFile(TinyModel(), path_).ok()); }

  // `ckn serve`, which has answered some calls.
  std::unique_ptr<Process> Serve(const std::vector<std::string>& more) {
    std::vector<std::string> command = {CKN_BINARY, "serve",       "--models", folder_.path(),
                                        "--listen", "127.0.0.1:0", "--http",   "off"};
    command.insert(command.end(), more.begin(), more.end());
    auto server = std::make_unique<Process>(command);
    EXPECT_TRUE(server->WaitForStderr("serving gRPC on ")) << server->Stderr();
    const std::string log = server->Stderr();
    int port = 0;
    std::sscanf(log.substr(log.find("serving gRPC on ")).c_str(), "serving gRPC on 127.0.0.1:%d", &port);
    v1::ClassifyRequest request;
    for (std::uint64_t i = 0; i < 32; ++i) request.add_images()->set_encoded(EncodePnm(TinyImage(TinyModel(), i)));
    const Client client(absl::StrCat("127.0.0.1:", port));
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(client.Classify(request).ok());
    return server;
  }

  const TempDir folder_;
  const std::string path_ = folder_.File("tiny.ckn");
};

TEST_F(EnvironmentTest, OnlyTheThreadsAskedForCompute) {
  const auto server = Serve({"--threads", "3"});
  // A thread has the name of the one that started it until it gets its own: those of OpenMP, OpenCV or oneDNN would
  // bear the executor's.
  int executor = 0;
  for (const auto& task : std::filesystem::directory_iterator(absl::StrCat("/proc/", server->pid(), "/task"))) {
    executor += ReadAll(task.path() / "comm") == "ckn-executor\n" ? 1 : 0;
  }
  EXPECT_EQ(executor, 3);
}

// gRPC does not listen any more once it had no file descriptor for a connection.
TEST_F(EnvironmentTest, WithoutFileDescriptorsTheServerStopsToBeStartedAnew) {
  Process server({"/bin/sh", "-c",
                  absl::StrCat("ulimit -n 64; exec ", CKN_BINARY, " serve --listen 127.0.0.1:0 --http off --models ",
                               folder_.path())});
  ASSERT_TRUE(server.WaitForStderr("serving gRPC on ")) << server.Stderr();
  const std::string log = server.Stderr();
  int port = 0;
  std::sscanf(log.substr(log.find("serving gRPC on ")).c_str(), "serving gRPC on 127.0.0.1:%d", &port);
  {
    std::vector<std::unique_ptr<testing::RawConnection>> connections;
    for (int i = 0; i < 100; ++i) connections.push_back(std::make_unique<testing::RawConnection>(port));
    EXPECT_TRUE(server.WaitForStderr("gRPC has stopped to listen")) << server.Stderr();
  }
  EXPECT_EQ(server.Wait(), 1) << server.Stderr();
}

TEST_F(EnvironmentTest, TheProgramHasOneProtobufLibrary) {
  const auto server = Serve({});
  std::set<std::string> protobuf;
  for (const absl::string_view line :
       absl::StrSplit(ReadAll(absl::StrCat("/proc/", server->pid(), "/maps")), '\n', absl::SkipEmpty())) {
    const std::string file(line.substr(line.rfind('/') + 1));
    if (file.rfind("libprotobuf.so", 0) == 0) protobuf.insert(file);
    // Its own copy of another version aborts the program.
    EXPECT_THAT(file, Not(HasSubstr("opencv_dnn")));
  }
  EXPECT_EQ(protobuf.size(), 1U);
}

TEST_F(EnvironmentTest, AModelThatDoesNotFitIntoMemoryIsAnErrorThatNamesIt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs terabytes of addresses";
#endif
  // 160 MB: the file and its message do not fit beside each other, and with the program, into 350.
  const std::string large = folder_.File("large.ckn");
  ASSERT_TRUE(
      WriteModelFile(TinyModel({.name = "large", .height = 128, .width = 128, .filters = 256, .classes = 40}), large)
          .ok());
  const std::string limited = absl::StrCat("ulimit -v 350000; exec timeout 60 ", CKN_BINARY, " ");
  const auto run = [&](const std::string& arguments) { return RunProgram({"/bin/sh", "-c", limited + arguments}); };
  EXPECT_EQ(run("inspect " + path_).exit_code, 0) << "the limit is for the model";
  const Finished serve = run(absl::StrCat("serve --listen 127.0.0.1:0 --http off --models ", folder_.path()));
  EXPECT_EQ(serve.exit_code, 1) << serve.err;
  EXPECT_THAT(serve.err, AllOf(HasSubstr("large.ckn"), HasSubstr("out of memory")));
  const Finished inspect = run("inspect " + large);
  EXPECT_EQ(inspect.exit_code, 1) << inspect.err;
  EXPECT_THAT(inspect.err, HasSubstr("memory"));
}

// The features of an image by `command`, which runs ckn.
std::vector<float> Features(std::vector<std::string> command, const std::string& model, const std::string& image,
                            const std::string& out) {
  command.insert(command.end(), {CKN_BINARY, "encode", model, "--images", image, "--out", out});
  const Finished run = RunProgram(command);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string file = ReadAll(out);
  const std::string data = file.substr(std::min(file.size(), file.find('\n') + 1));
  std::vector<float> features(data.size() / sizeof(float));
  std::memcpy(features.data(), data.data(), features.size() * sizeof(float));
  return features;
}

TEST_F(EnvironmentTest, RunsOnTheOldestProcessorOfItsKind) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the emulator has no room for the sanitizer";
#endif
  const std::string image = folder_.Write("image.pgm", EncodePnm(TinyImage(TinyModel(), 1)));
  const std::vector<float> here = Features({"/usr/bin/env"}, path_, image, folder_.File("here.npy"));
  ASSERT_EQ(here.size(), 36U);
  // Without SSSE3, SSE4 and AVX; then the last before AVX.
  for (const char* const cpu : {"qemu64", "Nehalem"}) {
    const std::vector<float> there =
        Features({"/usr/bin/qemu-x86_64", "-cpu", cpu}, path_, image, folder_.File("there.npy"));
    EXPECT_THAT(there, ::testing::Pointwise(::testing::FloatNear(1e-5F), here)) << cpu;
  }
}

TEST_F(EnvironmentTest, ACommaLocaleChangesNothing) {
  const TempDir locales;
  const Finished made = RunProgram({"/usr/bin/localedef", "-i", "de_DE", "-f", "UTF-8", locales.File("de_DE.UTF-8")});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string image = folder_.Write("image.pgm", EncodePnm(TinyImage(TinyModel(), 1)));
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"inspect", "--json", path_},
        {"inspect", path_},
        {"encode", path_, "--images", image, "--out", folder_.File("features.npy")},
        {"serve", "--print-config"}}) {
    std::vector<std::string> plain = {CKN_BINARY};
    plain.insert(plain.end(), arguments.begin(), arguments.end());
    std::vector<std::string> german = {"/usr/bin/env", "LOCPATH=" + locales.path(), "LC_ALL=de_DE.UTF-8"};
    german.insert(german.end(), plain.begin(), plain.end());
    const Finished expected = RunProgram(plain);
    ASSERT_EQ(expected.exit_code, 0) << expected.err;
    const Finished got = RunProgram(german);
    EXPECT_EQ(got.exit_code, expected.exit_code) << got.err;
    EXPECT_EQ(got.out, expected.out);
    EXPECT_EQ(got.err, expected.err);
  }
}

}  // namespace
}  // namespace ckn
