// ckn train as the real program: what is refused before the work, what an interruption leaves, image folders.
#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/image/decoder_versions.h"
#include "tests/e2e/process.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;
using testing::Finished;
using testing::Process;
using testing::RunProgram;
using testing::TempDir;

constexpr char kRecipe[] =
    "input { height: 12 width: 12 resize: RESIZE_POLICY_STRETCH }\n"
    "layers { patch_size: 3 filters: 8 subsampling: 3 }\n";

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A gray picture of stripes: across for "flat", down for "steep"; no two of a seed alike.
std::string Stripes(bool steep, int height, int width, int seed) {
  std::string pgm = absl::StrCat("P5 ", width, " ", height, " 255\n");
  std::uint32_t noise = static_cast<std::uint32_t>(seed) * 2654435761U + 1;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      noise = noise * 1664525U + 1013904223U;
      const int phase = (steep ? x * 12 / width : y * 12 / height) + seed;
      pgm.push_back(static_cast<char>((phase / 2 % 2 == 0 ? 40 : 180) + static_cast<int>(noise >> 27)));
    }
  }
  return pgm;
}

// Two classes in the folder data/, with a recipe.
class TrainCommandTest : public ::testing::Test {
 protected:
  TrainCommandTest() : recipe_(dir_.Write("stripes.recipe", kRecipe)), out_(dir_.File("stripes.ckn")) {
    for (const char* const split : {"train", "test"}) {
      for (const bool steep : {false, true}) {
        const std::string folder = absl::StrCat("data/", split, "/", steep ? "steep" : "flat");
        std::filesystem::create_directories(dir_.File(folder));
        for (int i = 0; i < 12; ++i) {
          // Every third one has another size.
          const int height = i % 3 == 0 ? 17 : 12;
          const int width = i % 3 == 0 ? 25 : 12;
          dir_.Write(absl::StrCat(folder, "/", i, ".pgm"), Stripes(steep, height, width, i));
        }
      }
    }
  }

  [[nodiscard]] std::string Data() const { return "images:" + dir_.File("data"); }

  // A short run with these options besides.
  [[nodiscard]] std::vector<std::string> Command(const std::vector<std::string>& more) const {
    std::vector<std::string> command = {CKN_BINARY, "train",  "--threads", "2",        "--pairs",
                                        "400",      "--data", Data(),      "--recipe", recipe_};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  [[nodiscard]] Finished Train(const std::vector<std::string>& more) const { return RunProgram(Command(more)); }

  // It ended before any work was done, with this code.
  void ExpectRefused(const std::vector<std::string>& more, int exit_code, const std::string& reason) const {
    const Finished run = Train(more);
    EXPECT_EQ(run.exit_code, exit_code) << reason;
    EXPECT_THAT(run.err, AllOf(HasSubstr(reason), Not(HasSubstr("pairs of")))) << reason;
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(out_));
  }

  TempDir dir_;
  std::string recipe_;
  std::string out_;
};

TEST_F(TrainCommandTest, FilesOfManySizesAreStretchedAlikeInTrainEvaluateAndEncode) {
  const Finished run = Train({"--iterations", "20", "--out", out_});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("test error 0.00 %"));

  const Finished evaluated = RunProgram({CKN_BINARY, "evaluate", out_, "--data", Data(), "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(evaluated.out)["error_percent"], 0.0);

  // A file by itself is stretched as it is as a member of the set.
  const std::string large = dir_.File("data/test/flat/0.pgm");
  ASSERT_EQ(RunProgram({CKN_BINARY, "encode", out_, "--images", large, "--out", dir_.File("one.npy")}).exit_code, 0);
  ASSERT_EQ(RunProgram({CKN_BINARY, "encode", out_, "--data", Data(), "--out", dir_.File("all.npy")}).exit_code, 0);
  const std::string one = ReadAll(dir_.File("one.npy"));
  const std::string all = ReadAll(dir_.File("all.npy"));
  constexpr std::size_t kHeader = 128;
  ASSERT_GT(one.size(), kHeader);
  EXPECT_EQ(one.substr(kHeader), all.substr(kHeader, one.size() - kHeader));
}

TEST_F(TrainCommandTest, AModelTellsTheDecoders) {
  ASSERT_EQ(Train({"--iterations", "2", "--out", out_}).exit_code, 0);
  const Finished inspected = RunProgram({CKN_BINARY, "inspect", out_, "--json"});
  ASSERT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_EQ(Json::parse(inspected.out)["provenance"]["decoders"], DecoderVersionsText());
}

TEST_F(TrainCommandTest, WithoutStretchingFilesOfManySizesAreRefused) {
  const std::string recipe = dir_.Write("fixed.recipe", "layers { patch_size: 3 filters: 8 subsampling: 3 }");
  const Finished run = RunProgram({CKN_BINARY, "train", "--recipe", recipe, "--data", Data(), "--out", out_});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("1.pgm: got 12 x 12 pixels"), HasSubstr("expected 17 x 25 as in"),
                             HasSubstr("RESIZE_POLICY_STRETCH")));
}

TEST_F(TrainCommandTest, WhatWouldMakeTheWorkUselessIsRefusedBeforeIt) {
  ExpectRefused({"--out", out_, "--name", "two\nlines"}, 1, "name: got \"two\\nlines\", expected printable UTF-8");
  ExpectRefused({"--out", out_, "--name", std::string(300, 'x')}, 1, "name: got 300 bytes, expected at most 256");
  ExpectRefused({"--out", ""}, 1, "not the name of a file");
  ExpectRefused({"--out", dir_.File("none/x.ckn")}, 1, "cannot write here");
  ExpectRefused({"--out", out_, "--train-size", "1"}, 1,
                "class \"steep\": 0 of the 1 training images for 5-fold cross-validation, expected at least 5");
  ExpectRefused({"--out", out_, "--validation-size", "23"}, 1, "when 23 are held out");
  ExpectRefused({"--out", out_, "--validation-size", "99999999999999"}, 1, "expected fewer than the 24");
  ExpectRefused({"--out", out_, "--validation-size", "-1"}, 2, "got -1, expected a whole number of at least 0");
  ExpectRefused({"--out", out_, "--train-size", "99999999999999999999"}, 2, "whole number");
  ExpectRefused({"--out", out_, "--c-min", "3", "--c-max", "2"}, 2, "expected at most --c-max");

  std::filesystem::create_directories(dir_.File("data/test/oblique"));
  dir_.Write("data/test/oblique/0.pgm", Stripes(true, 12, 12, 0));
  ExpectRefused({"--out", out_}, 1, "test split: the data's class \"oblique\" is not a class of the model");
}

TEST_F(TrainCommandTest, AMalformedDataSetIsWrongUse) {
  for (const char* const name : {"mnist", "mnist:", "imagenet:x", ":x", ""}) {
    const Finished run = RunProgram({CKN_BINARY, "train", "--arch", "ckn-gm1", "--data", name, "--out", out_});
    EXPECT_EQ(run.exit_code, 2) << name;
    EXPECT_THAT(run.err, HasSubstr("expected KIND:FOLDER")) << name;
  }
  EXPECT_EQ(RunProgram({CKN_BINARY, "train", "--arch", "ckn-gm1", "--data", "mnist:/none", "--out", out_}).exit_code,
            1);
}

TEST_F(TrainCommandTest, InterruptedAndResumedItWritesTheSameBytes) {
  const std::vector<std::string> options = {"--iterations", "400", "--out"};
  const auto with = [&](const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = options;
    all.push_back(out);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string whole = dir_.File("whole.ckn");
  ASSERT_EQ(Train(with(whole)).exit_code, 0);

  int interruptions = 0;
  for (bool done = false; !done;) {
    Process run(Command(with(out_, {"--resume"})));
    if (run.WaitForStderr("k-means") || run.WaitForStderr("resuming")) run.Signal(SIGINT);
    const int exit_code = run.Wait();
    done = exit_code == 0;
    if (done) break;
    ASSERT_EQ(exit_code, 1) << run.Stderr();
    ASSERT_THAT(run.Stderr(), HasSubstr("interrupted"));
    EXPECT_FALSE(std::filesystem::exists(out_));
    if (++interruptions == 5) {
      ASSERT_EQ(Train(with(out_, {"--resume"})).exit_code, 0);
      done = true;
    }
  }
  EXPECT_EQ(ReadAll(out_), ReadAll(whole));

  // What an interrupted run left is not lost by forgetting --resume.
  dir_.Write("stripes.ckn.checkpoint", "something");
  const Finished again = Train(with(out_));
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("stripes.ckn.checkpoint: left by an interrupted run; --resume continues it"));
  EXPECT_EQ(ReadAll(dir_.File("stripes.ckn.checkpoint")), "something");
  std::filesystem::remove(out_ + ".checkpoint");
  EXPECT_FALSE(std::filesystem::exists(out_ + ".checkpoint"));
}

// oneDNN's generated code does not survive a signal handler on its stack (server/base/signal_mask.h).
TEST_F(TrainCommandTest, ThreadsThatComputeTakeNoStopSignals) {
  const std::string recipe = dir_.Write("long.recipe",
                                        "input { height: 12 width: 12 resize: RESIZE_POLICY_STRETCH }"
                                        "layers { patch_size: 3 filters: 100 subsampling: 3 }");
  Process run({CKN_BINARY, "train", "--recipe", recipe, "--data", Data(), "--pairs", "100000", "--iterations",
               "1000000", "--threads", "2", "--out", out_});
  ASSERT_TRUE(run.WaitForStderr("k-means of")) << run.Stderr();
  int working = 0;
  for (const auto& task : std::filesystem::directory_iterator(absl::StrCat("/proc/", run.pid(), "/task"))) {
    // Libraries start threads before main, which do nothing here.
    const bool main_thread = task.path().filename() == std::to_string(run.pid());
    if (!main_thread && ReadAll(task.path() / "comm") != "ckn-pool\n") continue;
    ++working;
    const std::string status = ReadAll(task.path() / "status");
    const std::uint64_t blocked = std::stoull(status.substr(status.find("SigBlk:") + 7), nullptr, 16);
    const std::uint64_t stop = std::uint64_t{1} << (SIGINT - 1) | std::uint64_t{1} << (SIGTERM - 1);
    EXPECT_EQ(blocked & stop, stop) << task.path();
  }
  EXPECT_EQ(working, 2);
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 1);
}

TEST_F(TrainCommandTest, AFullDiskBehindStandardOutputIsAFailure) {
  ASSERT_EQ(Train({"--iterations", "5", "--out", out_}).exit_code, 0);
  for (const std::string& arguments : {absl::StrCat("inspect ", out_), absl::StrCat("inspect --json ", out_),
                                       absl::StrCat("evaluate ", out_, " --data ", Data()), std::string("--help")}) {
    const Finished run =
        RunProgram({"/bin/sh", "-c", absl::StrCat("exec ", CKN_BINARY, " ", arguments, " >/dev/full")});
    EXPECT_EQ(run.exit_code, 1) << arguments;
    EXPECT_THAT(run.err, HasSubstr("cannot write to standard output")) << arguments;
  }
}

TEST_F(TrainCommandTest, OutputsNeverReplaceWhatIsRead) {
  ASSERT_EQ(Train({"--iterations", "5", "--out", out_}).exit_code, 0);
  const std::string before = ReadAll(out_);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"encode", out_, "--data", Data(), "--out", out_},
        {"evaluate", out_, "--data", Data(), "--predictions", out_},
        {"inspect", out_, "--filters", out_}}) {
    std::vector<std::string> command = arguments;
    command.insert(command.begin(), CKN_BINARY);
    const Finished run = RunProgram(command);
    EXPECT_EQ(run.exit_code, 1) << arguments[0];
    EXPECT_THAT(run.err, HasSubstr("would overwrite")) << arguments[0];
    EXPECT_EQ(ReadAll(out_), before);
  }
}

}  // namespace
}  // namespace ckn
