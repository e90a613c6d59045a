// The subcommands evaluate, inspect, encode and bench, run as the real program.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/sha256.h"
#include "server/image/decode.h"
#include "server/pipeline.h"
#include "server/simd/target.h"
#include "server/store/model_file.h"
#include "tests/e2e/process.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;
using testing::EncodePnm;
using testing::Finished;
using testing::TempDir;
using testing::TinyImage;
using testing::TinyModel;

Finished Ckn(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), CKN_BINARY);
  return testing::RunProgram(arguments);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A tiny model, and random images of its size in the folders of its classes.
class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() : model_(TinyModel()), model_path_(dir_.File("tiny.ckn")) {
    EXPECT_TRUE(WriteModelFile(model_, model_path_).ok());
    absl::StatusOr<Pipeline> pipeline = Pipeline::Create(model_);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    std::uint64_t seed = 0;
    for (int label = 0; label < 3; ++label) {
      const std::string folder = absl::StrCat("data/test/", model_.class_names[static_cast<std::size_t>(label)]);
      std::filesystem::create_directories(dir_.File(folder));
      for (int i = 0; i < 4 + label; ++i) {
        const ImageU8 image = TinyImage(model_, ++seed);
        image_paths_.push_back(dir_.Write(absl::StrCat(folder, "/", i, ".pgm"), EncodePnm(image)));
        labels_.push_back(label);
        features_.push_back(*pipeline->Encode(image));
        predicted_.push_back(ArgMax(*pipeline->Classify(image)));
      }
    }
  }

  [[nodiscard]] std::string Data() const { return "images:" + dir_.File("data"); }

  TempDir dir_;
  Model model_;
  std::string model_path_;
  std::vector<std::string> image_paths_;
  std::vector<int> labels_;                   // of each image
  std::vector<int> predicted_;                // by the library
  std::vector<std::vector<float>> features_;  // by the library
};

using EvaluateTest = CommandsTest;
using EncodeTest = CommandsTest;
using InspectTest = CommandsTest;
using BenchTest = CommandsTest;

TEST_F(EvaluateTest, JsonHoldsTheFiguresOfTheLibrary) {
  const Finished run = Ckn({"evaluate", model_path_, "--data", Data(), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  std::vector<std::vector<int>> confusion(3, std::vector<int>(3));
  int errors = 0;
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    ++confusion[static_cast<std::size_t>(labels_[i])][static_cast<std::size_t>(predicted_[i])];
    errors += labels_[i] != predicted_[i] ? 1 : 0;
  }
  ASSERT_GT(errors, 0);
  ASSERT_LT(errors, 15);
  EXPECT_EQ(json["count"], 15);
  EXPECT_EQ(json["errors"], errors);
  EXPECT_DOUBLE_EQ(json["error_percent"], 100.0 * errors / 15);
  EXPECT_DOUBLE_EQ(json["accuracy_percent"], 100.0 * (15 - errors) / 15);
  EXPECT_EQ(json["confusion"], confusion);
  EXPECT_EQ(json["classes"], model_.class_names);
  EXPECT_EQ(json["model"], "tiny");
  EXPECT_EQ(json["file"], model_path_);
  EXPECT_EQ(json["sha256"], Sha256Hex(ReadAll(model_path_)));
  EXPECT_EQ(json["data"], "images:data");
  EXPECT_EQ(json["split"], "test");
  EXPECT_GT(json["images_per_second"], 0);
  ASSERT_EQ(json["per_class"].size(), 3U);
  for (std::size_t c = 0; c < 3; ++c) {
    const Json& entry = json["per_class"][c];
    EXPECT_EQ(entry["label"], model_.class_names[c]);
    EXPECT_EQ(entry["count"], 4 + c);
    EXPECT_DOUBLE_EQ(entry["recall"], confusion[c][c] / (4.0 + static_cast<double>(c)));
    const int guesses = confusion[0][c] + confusion[1][c] + confusion[2][c];
    if (guesses == 0) {
      EXPECT_TRUE(entry["precision"].is_null());
    } else {
      EXPECT_DOUBLE_EQ(entry["precision"], static_cast<double>(confusion[c][c]) / guesses);
    }
  }
}

TEST_F(EvaluateTest, ThreadsDoNotChangeTheResult) {
  std::vector<Json> results;
  for (const char* threads : {"1", "2", "5"}) {
    const Finished run = Ckn({"evaluate", model_path_, "--data", Data(), "--json", "--threads", threads});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    Json json = Json::parse(run.out);
    EXPECT_EQ(json["threads"], std::stoi(threads));
    json.erase("threads");
    json.erase("images_per_second");
    results.push_back(json);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(EvaluateTest, PredictionsFileNamesEachImage) {
  const std::string csv = dir_.File("predictions.csv");
  ASSERT_EQ(Ckn({"evaluate", model_path_, "--data", Data(), "--predictions", csv}).exit_code, 0);
  std::string expected = "index,true,predicted,file\n";
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const std::string file = image_paths_[i].substr(dir_.File("data/test/").size());
    absl::StrAppend(&expected, i, ",", labels_[i], ",", predicted_[i], ",\"", file, "\"\n");
  }
  EXPECT_EQ(ReadAll(csv), expected);
}

TEST_F(EvaluateTest, NoveltyIsCountedAndWrittenWhereTheModelHasIt) {
  Model ranked = model_;
  ranked.residual_quantiles = {-1e6F, -1e6F + 1};  // everything is new
  const std::string path = dir_.File("ranked.ckn");
  ASSERT_TRUE(WriteModelFile(ranked, path).ok());
  const std::string csv = dir_.File("novelty.csv");
  const Finished json = Ckn({"evaluate", path, "--data", Data(), "--json", "--predictions", csv});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(Json::parse(json.out)["novel_images"], 15);
  EXPECT_THAT(ReadAll(csv), StartsWith("index,true,predicted,residual,novelty,file\n0,0,"));
  EXPECT_THAT(ReadAll(csv), HasSubstr(",1,\""));
  EXPECT_THAT(Ckn({"evaluate", path, "--data", Data()}).out, HasSubstr("novel: 15 of 15 images"));
  EXPECT_THAT(Ckn({"inspect", path}).out, HasSubstr("Novelty: residual of the training images"));
  EXPECT_EQ(Json::parse(Ckn({"inspect", path, "--json"}).out)["residual_quantiles"]["1"], -1e6F + 1);

  const Finished without = Ckn({"evaluate", model_path_, "--data", Data(), "--json"});
  EXPECT_TRUE(Json::parse(without.out)["novel_images"].is_null());
}

TEST_F(EvaluateTest, TextShowsErrorAndConfusion) {
  const Finished run = Ckn({"evaluate", model_path_, "--data", Data()});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(StartsWith("tiny on images:data, test split\nerror "), HasSubstr("of 15 images)"),
                             HasSubstr("class 2"), HasSubstr("recall"), HasSubstr("Confusion")));
}

TEST_F(EvaluateTest, LimitTakesTheFirstImages) {
  const Finished run = Ckn({"evaluate", model_path_, "--data", Data(), "--json", "--limit", "5"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json["count"], 5);
  EXPECT_EQ(json["per_class"][0]["count"], 4);
  EXPECT_EQ(json["per_class"][1]["count"], 1);
  EXPECT_TRUE(json["per_class"][2]["recall"].is_null());
}

TEST_F(EvaluateTest, ClassesAreMatchedByName) {
  // Without the folder of class 0 the data's first class is the model's second.
  std::filesystem::remove_all(dir_.File("data/test/class 0"));
  const Finished run = Ckn({"evaluate", model_path_, "--data", Data(), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json["per_class"][0]["count"], 0);
  EXPECT_EQ(json["per_class"][1]["count"], 5);
  EXPECT_EQ(json["per_class"][2]["count"], 6);
  const auto right = [&](int label) {
    int count = 0;
    for (std::size_t i = 0; i < labels_.size(); ++i) count += labels_[i] == label && predicted_[i] == label ? 1 : 0;
    return count;
  };
  EXPECT_EQ(json["confusion"][1][1], right(1));
  EXPECT_EQ(json["confusion"][2][2], right(2));
}

TEST_F(EvaluateTest, AClassThatTheModelDoesNotKnowFails) {
  std::filesystem::rename(dir_.File("data/test/class 1"), dir_.File("data/test/horse"));
  const Finished run = Ckn({"evaluate", model_path_, "--data", Data()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "ckn evaluate: " + Data() +
                         ": the data's class \"horse\" is not a class of the model, expected one of: class 0, class 1, "
                         "class 2\n");
}

TEST_F(EvaluateTest, ImagesOfAnotherSizeFail) {
  TempDir other;
  std::filesystem::create_directories(other.File("test/class 0"));
  other.Write("test/class 0/a.pgm", "P5 2 3 255\nabcdef");
  const Finished run = Ckn({"evaluate", model_path_, "--data", "images:" + other.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(StartsWith("ckn evaluate: images:"),
                             HasSubstr("image of 3 x 2 pixels (height x width), expected 8 x 8")));
}

TEST_F(EvaluateTest, FailuresExitWith1AndWrongUseWith2) {
  Finished run = Ckn({"evaluate", dir_.File("none.ckn"), "--data", Data()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, StartsWith("ckn evaluate: " + dir_.File("none.ckn") + ": "));
  run = Ckn({"evaluate", dir_.Write("bad.ckn", "hello"), "--data", Data()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("bad.ckn: not a model file"));
  run = Ckn({"evaluate", model_path_, "--data", Data(), "--split", "train"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("no folder \"train\""));
  EXPECT_EQ(Ckn({"evaluate", model_path_, "--data", "tables:x"}).exit_code, 2);

  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"evaluate"},
                                                {"evaluate", model_path_},
                                                {"evaluate", "--data", Data()},
                                                {"evaluate", model_path_, "--data", Data(), "--limit", "0"},
                                                {"evaluate", model_path_, "--data", Data(), "--threads", "x"},
                                                {"evaluate", model_path_, "--data", Data(), "--split", "validation"},
                                                {"evaluate", model_path_, "--data", Data(), "--precision", "float16"},
                                                {"evaluate", model_path_, "--data", Data(), "--no-such-option"}}) {
    run = Ckn(wrong);
    EXPECT_EQ(run.exit_code, 2) << ::testing::PrintToString(wrong);
    EXPECT_EQ(run.out, "");
    EXPECT_NE(run.err, "");
  }
}

// The rows of a .npy file of float32 [rows][columns].
std::vector<std::vector<float>> ReadNpy(const std::string& path, std::size_t rows, std::size_t columns) {
  const std::string file = ReadAll(path);
  EXPECT_THAT(file,
              HasSubstr(absl::StrCat("'descr': '<f4', 'fortran_order': False, 'shape': (", rows, ", ", columns, ")")));
  const std::size_t data_bytes = rows * columns * 4;
  if (file.size() < data_bytes) return {};
  EXPECT_EQ((file.size() - data_bytes) % 64, 0U);
  std::vector<std::vector<float>> out(rows, std::vector<float>(columns));
  const char* data = file.data() + file.size() - data_bytes;
  for (std::size_t i = 0; i < rows; ++i) std::memcpy(out[i].data(), data + i * columns * 4, columns * 4);
  return out;
}

TEST_F(EncodeTest, DataSetGivesTheFeaturesOfTheLibrary) {
  const std::string npy = dir_.File("f.npy");
  for (const char* threads : {"1", "3"}) {
    const Finished run = Ckn({"encode", model_path_, "--data", Data(), "--out", npy, "--threads", threads});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(run.err, npy + ": 15 images, float32 [15][36]\n");
    EXPECT_EQ(ReadNpy(npy, 15, 36), features_);
  }
}

// The largest difference, as a part of the largest value.
double Difference(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      largest = std::max<double>(largest, std::abs(a[i][j]));
      difference = std::max<double>(difference, std::abs(b[i][j] - a[i][j]));
    }
  }
  return difference / largest;
}

TEST_F(EncodeTest, Bfloat16GivesNearlyTheSameFeatures) {
  const std::string npy = dir_.File("f.npy");
  const Finished run = Ckn({"encode", model_path_, "--data", Data(), "--out", npy, "--precision", "bfloat16"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const double difference = Difference(features_, ReadNpy(npy, 15, 36));
  EXPECT_GT(difference, 1e-6);
  EXPECT_LT(difference, 3e-2);
  EXPECT_EQ(Ckn({"encode", model_path_, "--data", Data(), "--out", npy, "--precision", "half"}).exit_code, 2);
}

// What packs filters and what multiplies them must agree on the instruction set, in a program that asked for one.
TEST_F(EncodeTest, EveryInstructionSetGivesNearlyTheSameFeatures) {
  const std::string npy = dir_.File("f.npy");
  const std::vector<std::string> targets = SimdTargets();
  ASSERT_GE(targets.size(), 2U);
  for (const std::string& target : targets) {
    for (const std::string precision : {"float32", "bfloat16"}) {
      const Finished run = testing::RunProgram({"/usr/bin/env", "CKN_SIMD=" + target, CKN_BINARY, "encode", model_path_,
                                                "--data", Data(), "--out", npy, "--precision", precision});
      ASSERT_EQ(run.exit_code, 0) << target << " " << precision << "\n" << run.err;
      EXPECT_LT(Difference(features_, ReadNpy(npy, 15, 36)), precision == "float32" ? 1e-5 : 3e-2) << target;
    }
  }
}

TEST_F(EncodeTest, ImageFilesGiveRowsInTheOrderOfTheCommandLine) {
  const std::string npy = dir_.File("f.npy");
  const Finished run = Ckn({"encode", model_path_, "--images", image_paths_[9], image_paths_[2], "--out", npy});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(ReadNpy(npy, 2, 36), ElementsAre(features_[9], features_[2]));
}

TEST_F(EncodeTest, MoreRowsThanOneBlockStayInOrder) {
  std::vector<std::string> arguments = {"encode", model_path_, "--out", dir_.File("f.npy"), "--images"};
  std::vector<std::vector<float>> expected;
  for (std::size_t i = 0; i < 600; ++i) {
    arguments.push_back(image_paths_[i * 7 % image_paths_.size()]);
    expected.push_back(features_[i * 7 % image_paths_.size()]);
  }
  const Finished run = Ckn(arguments);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(ReadNpy(dir_.File("f.npy"), 600, 36), expected);
}

TEST_F(EncodeTest, ABadImageIsNamedAndLeavesNoFile) {
  const std::string bad = dir_.Write("bad.png", "not a picture");
  Finished run = Ckn({"encode", model_path_, "--images", image_paths_[0], bad, "--out", dir_.File("f.npy")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, StartsWith("ckn encode: " + bad + ": unknown image format"));
  run = Ckn({"encode", model_path_, "--images", dir_.File("none.png"), "--out", dir_.File("f.npy")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("none.png: cannot open"));
  const std::string small = dir_.Write("small.pgm", "P5 1 1 255\nx");
  run = Ckn({"encode", model_path_, "--images", small, "--out", dir_.File("f.npy")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("small.pgm: image of 1 x 1 pixels"));
  EXPECT_FALSE(std::filesystem::exists(dir_.File("f.npy")));
  EXPECT_EQ(Ckn({"encode", model_path_, "--images", image_paths_[0], "--out", dir_.File("no/f.npy")}).exit_code, 1);
}

// Shards of machines that work at the same time, one of which is stopped in its work and started anew.
TEST_F(EncodeTest, ShardsJoinToTheFileOfASingleRun) {
  const std::string whole = dir_.File("whole.npy"), folder = dir_.File("shards"), joined = dir_.File("joined.npy");
  ASSERT_EQ(Ckn({"encode", model_path_, "--data", Data(), "--out", whole}).exit_code, 0);
  const auto shard = [&](const std::string& part) {
    return Ckn({"encode", model_path_, "--data", Data(), "--out", folder, "--shard", part});
  };
  for (const char* const part : {"2/4", "0/4", "1/4"}) {
    const Finished run = shard(part);
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  Finished run = Ckn({"merge", folder, "--out", joined});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("got 3 of 4 shards; missing: 3"));
  ASSERT_EQ(shard("3/4").exit_code, 0);
  // Stopped before the manifest, and damaged afterwards.
  const std::string stopped = folder + "/features-00001-of-00004", damaged = folder + "/features-00002-of-00004.npy";
  const std::string before = ReadAll(stopped + ".npy"), good = ReadAll(damaged);
  std::filesystem::remove(stopped + ".json");
  std::filesystem::resize_file(stopped + ".npy", 10);
  std::ofstream(damaged, std::ios::in | std::ios::out).seekp(200) << "xy";
  ASSERT_NE(ReadAll(damaged), good);
  EXPECT_THAT(Ckn({"merge", folder, "--out", joined}).err, HasSubstr("got 3 of 4 shards; missing: 1"));
  ASSERT_EQ(shard("1/4").exit_code, 0);
  EXPECT_EQ(ReadAll(stopped + ".npy"), before);
  run = Ckn({"merge", folder, "--out", joined});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("features-00002-of-00004.npy: got SHA-256"), HasSubstr("encode this shard again")));
  EXPECT_FALSE(std::filesystem::exists(joined));
  ASSERT_EQ(shard("2/4").exit_code, 0);
  run = shard("2/4");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.err, HasSubstr("is there already"));
  run = Ckn({"merge", folder, "--out", joined});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(ReadAll(joined), ReadAll(whole));
}

TEST_F(EncodeTest, ShardsThatDoNotBelongTogetherAreRefused) {
  const std::string folder = dir_.File("shards");
  ASSERT_EQ(Ckn({"encode", model_path_, "--data", Data(), "--out", folder, "--shard", "0/2"}).exit_code, 0);
  // Another list of images into the same folder.
  Finished run = Ckn({"encode", model_path_, "--images", image_paths_[1], "--out", folder, "--shard", "0/2"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("is of another run; data: got "), HasSubstr("expected \"files\"")));
  ASSERT_EQ(Ckn({"encode", model_path_, "--images", image_paths_[1], "--out", folder, "--shard", "1/2"}).exit_code, 0);
  EXPECT_THAT(Ckn({"merge", folder, "--out", dir_.File("f.npy")}).err,
              HasSubstr("features-00001-of-00002.json: data: "));
  ASSERT_EQ(Ckn({"encode", model_path_, "--data", Data(), "--out", folder, "--shard", "0/3"}).exit_code, 0);
  EXPECT_THAT(Ckn({"merge", folder, "--out", dir_.File("f.npy")}).err, HasSubstr("beside one of"));
  EXPECT_EQ(Ckn({"merge", dir_.File("none"), "--out", dir_.File("f.npy")}).exit_code, 1);
  std::filesystem::create_directory(dir_.File("empty"));
  EXPECT_THAT(Ckn({"merge", dir_.File("empty"), "--out", dir_.File("f.npy")}).err, HasSubstr("no shards"));
  for (const char* const wrong : {"2/2", "-1/2", "0", "0/0", "a/b", "0/2x", "0/100001", ""}) {
    run = Ckn({"encode", model_path_, "--data", Data(), "--out", folder, "--shard", wrong});
    EXPECT_EQ(run.exit_code, 2) << wrong;
  }
  // More shards than images: some have none.
  for (int i = 0; i < 20; ++i) {
    run = Ckn({"encode", model_path_, "--data", Data(), "--out", dir_.File("many"), "--shard", absl::StrCat(i, "/20")});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  ASSERT_EQ(Ckn({"merge", dir_.File("many"), "--out", dir_.File("f.npy")}).exit_code, 0);
  EXPECT_EQ(ReadNpy(dir_.File("f.npy"), 15, 36), features_);
}

TEST_F(EncodeTest, ExactlyOneSourceIsNeeded) {
  const std::string npy = dir_.File("f.npy");
  EXPECT_EQ(Ckn({"encode", model_path_, "--out", npy}).exit_code, 2);
  EXPECT_EQ(Ckn({"encode", model_path_, "--out", npy, "--data", Data(), "--images", image_paths_[0]}).exit_code, 2);
  EXPECT_EQ(Ckn({"encode", model_path_, "--data", Data()}).exit_code, 2);
  EXPECT_EQ(Ckn({"encode", "--data", Data(), "--out", npy}).exit_code, 2);
}

// The data folder has a test split only; this adds one to train on.
class RefitTest : public CommandsTest {
 protected:
  RefitTest() {
    for (int label = 0; label < 2; ++label) {
      const std::string folder = absl::StrCat("new/train/", label == 0 ? "left" : "right");
      std::filesystem::create_directories(dir_.File(folder));
      for (int i = 0; i < 12; ++i) {
        ImageU8 image = TinyImage(model_, 100 * static_cast<std::uint64_t>(label) + static_cast<std::uint64_t>(i));
        for (std::size_t k = 0; k < image.pixels.size(); ++k) {
          if ((k % 8 < 4) == (label == 0)) image.pixels[k] /= 8;  // one half is darker
        }
        dir_.Write(absl::StrCat(folder, "/", i, ".pgm"), EncodePnm(image));
      }
    }
  }

  const std::string new_data_ = "images:" + dir_.File("new");
  const std::string out_ = dir_.File("out.ckn");
};

TEST_F(RefitTest, AMissingTestSplitPointsToTheOther) {
  const Finished evaluate = Ckn({"evaluate", model_path_, "--data", new_data_});
  EXPECT_EQ(evaluate.exit_code, 1);
  EXPECT_THAT(evaluate.err, HasSubstr("there is a training split, see --split train"));
}

TEST_F(RefitTest, MakesAModelOfTheDatasClasses) {
  const Finished refit = Ckn({"refit", model_path_, "--data", new_data_, "--out", out_, "--name", "sides"});
  ASSERT_EQ(refit.exit_code, 0) << refit.err;
  EXPECT_THAT(refit.out, HasSubstr("out.ckn: sides"));
  const absl::StatusOr<LoadedModel> loaded = ReadModelFile(out_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->model.class_names, ElementsAre("left", "right"));
  EXPECT_EQ(loaded->model.networks[0].layers[0].filters, model_.networks[0].layers[0].filters);
  EXPECT_THAT(loaded->model.provenance.command(), StartsWith("ckn refit tiny --data images:new --name sides --seed 1"));
  const Json evaluation = Json::parse(Ckn({"evaluate", out_, "--data", new_data_, "--split", "train", "--json"}).out);
  EXPECT_EQ(evaluation["error_percent"], 0);
}

TEST_F(RefitTest, SeveralFilesAreOneModelThatServesAndInspects) {
  const Finished refit = Ckn({"refit", model_path_, model_path_, "--data", new_data_, "--out", out_});
  ASSERT_EQ(refit.exit_code, 0) << refit.err;
  const Json json = Json::parse(Ckn({"inspect", out_, "--json"}).out);
  ASSERT_EQ(json["networks"].size(), 2U);
  EXPECT_EQ(json["networks"][1]["layers"].size(), 1U);
  EXPECT_EQ(json["features"], 2 * json["networks"][0]["features"].get<int>());
  const Finished text = Ckn({"inspect", out_, "--filters", dir_.File("f.png"), "--network", "2"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("features of tiny centred"));
  EXPECT_EQ(Ckn({"inspect", out_, "--filters", dir_.File("f.png"), "--network", "3"}).exit_code, 1);
  EXPECT_EQ(Ckn({"encode", out_, "--images", image_paths_[0], "--out", dir_.File("f.npy")}).exit_code, 0);
}

TEST_F(RefitTest, FailuresSayWhyAndWriteNothing) {
  const Finished missing = Ckn({"refit", dir_.File("no.ckn"), "--data", new_data_, "--out", out_});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("no.ckn: cannot open"));
  const Finished size = Ckn({"refit", model_path_, "--data", new_data_, "--out", out_, "--train-size", "999"});
  EXPECT_EQ(size.exit_code, 1);
  EXPECT_THAT(size.err, HasSubstr("got 999, expected at most the 24 images"));
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_EQ(Ckn({"refit", "--data", new_data_, "--out", out_}).exit_code, 2);
  EXPECT_EQ(Ckn({"refit", model_path_, "--data", new_data_, "--out", out_, "--c-min", "3", "--c-max", "2"}).exit_code,
            2);
  EXPECT_EQ(
      Ckn({"refit", model_path_, "--data", new_data_, "--out", out_, "--fold", "0", "--train-size", "5"}).exit_code, 2);
}

// Layers of arbitrary weights in the shapes of an architecture, with a classifier that fits.
Model ModelOf(const std::string& name, const InputSpec& input, std::vector<Layer> layers) {
  Model model = TinyModel();
  model.name = name;
  Network& network = model.networks.front();
  network.architecture = name;
  network.input = input;
  MapShape shape{input.height, input.width, input.MapChannels()};
  network.learning.clear();
  for (Layer& layer : layers) {
    layer.in_channels = shape.channels;
    layer.sigma = 0.5F;
    layer.pooling_radius = layer.subsampling;
    const Eigen::Index filters = layer.eta.size();
    layer.filters = RowMatrixF::Random(filters, layer.patch_dim());
    layer.eta.setLinSpaced(filters, 0, 1);
    shape = *OutputShape(layer, shape);
    network.learning.emplace_back();
  }
  network.layers = std::move(layers);
  const Eigen::Index features = Eigen::Index{shape.height} * shape.width * shape.channels;
  network.standardization.mean = Eigen::VectorXf::Zero(features);
  model.svm.weights = RowMatrixF::Zero(3, features);
  return model;
}

Layer LayerOf(int patch_size, int filters, int subsampling, bool learned = true) {
  Layer layer;
  layer.patch_size = patch_size;
  layer.subsampling = subsampling;
  layer.learned = learned;
  layer.eta.resize(filters);
  return layer;
}

// The words of the line behind the first that starts with `head`.
std::vector<std::string> WordsAfter(const std::string& text, const std::string& head) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind(head, 0) != 0) continue;
    std::getline(lines, line);
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

TEST_F(InspectTest, ArchitectureIsPrintedAsInTable3) {
  const InputSpec gradient = {.height = 28, .width = 28, .channels = 1, .map = InputMap::kGradient};
  ASSERT_TRUE(
      WriteModelFile(ModelOf("CKN-GM1", gradient, {LayerOf(1, 12, 2, false), LayerOf(3, 50, 3)}), dir_.File("gm1.ckn"))
          .ok());
  Finished run = Ckn({"inspect", dir_.File("gm1.ckn")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(WordsAfter(run.out, "  Arch."),
              ElementsAre("CKN-GM1", "2", "1x1", "12", "2", "3x3", "50", "4x4", "5,400"));

  const InputSpec pixels = {.height = 28, .width = 28, .channels = 1};
  ASSERT_TRUE(WriteModelFile(ModelOf("CKN-PM1", pixels, {LayerOf(5, 200, 6)}), dir_.File("pm1.ckn")).ok());
  run = Ckn({"inspect", dir_.File("pm1.ckn")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(WordsAfter(run.out, "  Arch."), ElementsAre("CKN-PM1", "1", "5x5", "200", "6", "-", "-", "4x4", "5,000"));
}

TEST_F(InspectTest, JsonDescribesLayersAndProvenance) {
  const InputSpec gradient = {.height = 28, .width = 28, .channels = 1, .map = InputMap::kGradient};
  Model model = ModelOf("gm", gradient, {LayerOf(1, 12, 2, false), LayerOf(3, 50, 3)});
  model.networks[0].layers[1].eta[7] = 0;
  model.networks[0].learning[1].set_pairs(300000);
  model.networks[0].learning[1].set_iterations(12);
  model.networks[0].learning[1].set_objective(0.25);
  model.networks[0].learning[1].set_stop_reason("converged");
  model.provenance.set_seed(18446744073709551615U);
  model.provenance.set_svm_c(4);
  model.provenance.add_validation_curve()->set_svm_c(4);
  const std::string path = dir_.File("gm.ckn");
  ASSERT_TRUE(WriteModelFile(model, path).ok());
  const Finished run = Ckn({"inspect", path, "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json["name"], "gm");
  EXPECT_EQ(json["sha256"], Sha256Hex(ReadAll(path)));
  EXPECT_EQ(json["file_bytes"], ReadAll(path).size());
  EXPECT_EQ(json["parameters"], 5400);
  EXPECT_EQ(json["features"], 800);
  EXPECT_EQ(json["output_size"], Json({4, 4}));
  EXPECT_EQ(json["input"]["map"], "gradient");
  EXPECT_EQ(json["input"]["resize"], "reject");
  ASSERT_EQ(json["layers"].size(), 2U);
  EXPECT_EQ(json["layers"][0]["learned"], false);
  EXPECT_EQ(json["layers"][0]["parameters"], 0);
  EXPECT_TRUE(json["layers"][0]["learning"].is_null());
  const Json& layer = json["layers"][1];
  EXPECT_EQ(layer["parameters"], 5400);
  EXPECT_EQ(layer["input_shape"], Json({14, 14, 12}));
  EXPECT_EQ(layer["activation_shape"], Json({12, 12, 50}));
  EXPECT_EQ(layer["output_shape"], Json({4, 4, 50}));
  EXPECT_EQ(layer["sigma"], 0.5);
  EXPECT_EQ(layer["eta"]["dead"], 2);
  EXPECT_EQ(layer["eta"]["min"], 0);
  EXPECT_EQ(layer["eta"]["max"], 1);
  EXPECT_EQ(layer["learning"]["pairs"], 300000);
  EXPECT_EQ(layer["learning"]["objective"], 0.25);
  EXPECT_EQ(layer["learning"]["stop_reason"], "converged");
  EXPECT_EQ(json["provenance"]["seed"], 18446744073709551615U);
  EXPECT_EQ(json["provenance"]["validation_error_percent"], 12.5);
  EXPECT_TRUE(json["provenance"]["test_error_percent"].is_null());
  EXPECT_EQ(json["provenance"]["validation_curve"].size(), 1U);
}

TEST_F(InspectTest, TextNamesTheProvenance) {
  model_.provenance.set_command("ckn train --arch x --seed 3");
  model_.provenance.set_test_error_percent(1.25);
  model_.provenance.set_test_count(10000);
  v1::ValidationPoint* point = model_.provenance.add_validation_curve();
  point->set_svm_c(1);
  point->set_error_percent(12.5);
  ASSERT_TRUE(WriteModelFile(model_, model_path_).ok());
  const Finished run = Ckn({"inspect", model_path_});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("ckn train --arch x --seed 3"), HasSubstr("error 12.50 % (held-out)"),
                             HasSubstr("error 1.25 % on 10,000 images"), HasSubstr("2^0  12.50 %  *")));
}

TEST_F(InspectTest, FiltersAreDrawnLargestEtaFirstAtFullContrast) {
  // Two filters of 2 x 2 on one channel; the second has the larger eta.
  Model model = ModelOf("p", {.height = 8, .width = 8, .channels = 1}, {LayerOf(2, 2, 2)});
  model.networks[0].layers[0].filters << -1, 0, 0, 1,  //
      5, 3, 1, 3;
  model.networks[0].layers[0].eta << 0.25F, 0.75F;
  ASSERT_TRUE(WriteModelFile(model, dir_.File("p.ckn")).ok());
  const std::string png = dir_.File("p.png");
  const Finished run = Ckn({"inspect", dir_.File("p.ckn"), "--filters", png});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, png + ": 2 filters of layer 1\n");
  const std::string file = ReadAll(png);
  const absl::StatusOr<ImageU8> image = Decode(std::as_bytes(std::span<const char>(file)), {});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->channels, 1);
  // Two cells of 2 x 2 blocks of equal size with a gap around them.
  const int gap = 4;
  const int cell = (image->width - 3 * gap) / 2;
  ASSERT_EQ(image->width, 2 * cell + 3 * gap);
  ASSERT_EQ(image->height, cell + 2 * gap);
  const auto block = [&](int filter, int y, int x) -> int {
    const int row = gap + cell / 4 + y * cell / 2;
    const int column = gap + filter * (cell + gap) + cell / 4 + x * cell / 2;
    return image->pixels[static_cast<std::size_t>(row) * image->width + column];
  };
  EXPECT_THAT((std::vector<int>{block(0, 0, 0), block(0, 0, 1), block(0, 1, 0), block(0, 1, 1)}),
              ElementsAre(255, 128, 0, 128));
  EXPECT_THAT((std::vector<int>{block(1, 0, 0), block(1, 0, 1), block(1, 1, 0), block(1, 1, 1)}),
              ElementsAre(0, 128, 128, 255));
}

TEST_F(InspectTest, FiltersDefaultToTheFirstLearnedLayerInItsColours) {
  const InputSpec gradient = {.height = 28, .width = 28, .channels = 1, .map = InputMap::kGradient};
  ASSERT_TRUE(
      WriteModelFile(ModelOf("g", gradient, {LayerOf(1, 12, 2, false), LayerOf(3, 5, 3)}), dir_.File("g.ckn")).ok());
  const std::string png = dir_.File("f.png");
  EXPECT_THAT(Ckn({"inspect", dir_.File("g.ckn"), "--filters", png}).err, HasSubstr("5 filters of layer 2"));
  EXPECT_THAT(Ckn({"inspect", dir_.File("g.ckn"), "--filters", png, "--layer", "1"}).err,
              HasSubstr("12 filters of layer 1"));
  const Finished beyond = Ckn({"inspect", dir_.File("g.ckn"), "--filters", png, "--layer", "3"});
  EXPECT_EQ(beyond.exit_code, 1);
  EXPECT_THAT(beyond.err, HasSubstr("--layer: got 3, expected 1 to 2"));

  ASSERT_TRUE(
      WriteModelFile(ModelOf("c", {.height = 8, .width = 8, .channels = 3}, {LayerOf(2, 5, 3)}), dir_.File("c.ckn"))
          .ok());
  ASSERT_EQ(Ckn({"inspect", dir_.File("c.ckn"), "--filters", png}).exit_code, 0);
  const std::string file = ReadAll(png);
  const absl::StatusOr<ImageU8> image = Decode(std::as_bytes(std::span<const char>(file)), {});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->channels, 3);
}

TEST_F(InspectTest, FailuresExitWith1AndWrongUseWith2) {
  EXPECT_EQ(Ckn({"inspect", dir_.File("none.ckn")}).exit_code, 1);
  EXPECT_EQ(Ckn({"inspect", model_path_, "--filters", dir_.File("no/f.png")}).exit_code, 1);
  EXPECT_EQ(Ckn({"inspect"}).exit_code, 2);
  EXPECT_EQ(Ckn({"inspect", model_path_, "--layer", "1"}).exit_code, 2);
  EXPECT_EQ(Ckn({"inspect", model_path_, "--filters", dir_.File("f.png"), "--layer", "0"}).exit_code, 2);
}

TEST(HelpTest, EverySubcommandExplainsItself) {
  for (const char* command : {"evaluate", "inspect", "encode"}) {
    const Finished run = Ckn({command, "--help"});
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_THAT(run.out, AllOf(HasSubstr("FILE"), HasSubstr("Example:")));
    EXPECT_EQ(run.err, "");
  }
}

TEST_F(BenchTest, MeasuresEachNetworkBatchAndNumberOfThreads) {
  const Finished run = Ckn({"bench", model_path_, "--arch", "ckn-gm1", "--size", "20", "28", "--batch", "1", "3",
                            "--threads", "1", "2", "--seconds", "0", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  ASSERT_EQ(json["rows"].size(), 3U * 2U * 2U);
  for (const Json& row : json["rows"]) {
    EXPECT_GT(row["images_per_second"], 0);
    EXPECT_GE(row["p99_ms"], row["p50_ms"]);
    EXPECT_NEAR(row["gflops"].get<double>(),
                1e-3 * row["mflop_per_image"].get<double>() * row["images_per_second"].get<double>(), 1e-6);
    EXPECT_GT(row["matrix_product_gflops"], 0);
    EXPECT_GT(row["peak_memory_mib"], 0);
  }
  const Json& gm1 = json["rows"][4];  // 28 x 28 x 12 orientations of 2, then 12 x 12 x 50 filters of 3 x 3 x 12
  EXPECT_EQ(gm1["network"], "ckn-gm1");
  EXPECT_EQ(gm1["height"], 28);
  EXPECT_NEAR(gm1["mflop_per_image"].get<double>(), 2e-6 * (28 * 28 * 12 * 2 + 12 * 12 * 50 * 108), 1e-9);
  EXPECT_EQ(gm1["features"], 800);
}

TEST_F(BenchTest, SaysThePrecision) {
  const Finished run =
      Ckn({"bench", model_path_, "--precision", "bfloat16", "--threads", "1", "--seconds", "0", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(Json::parse(run.out)["rows"][0]["precision"], "bfloat16");
  const Finished unknown = Ckn({"bench", model_path_, "--precision", "bf16"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("--precision: bf16 not in"), HasSubstr("float32")));
}

TEST_F(BenchTest, PrintsATable) {
  const Finished run = Ckn({"bench", model_path_, "--batch", "2", "--threads", "1", "--seconds", "0"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("images/s"), HasSubstr("tiny"), HasSubstr("8x8x1")));
}

TEST_F(BenchTest, MeasuresRecipes) {
  const std::string path = dir_.File("two.recipe");
  std::ofstream(path) << "layers { patch_size: 3 filters: 20 subsampling: 2 }\nlayers { patch_size: 2 filters: 8 "
                         "subsampling: 2 }\n";
  const Finished run =
      Ckn({"bench", "--recipe", path, "--size", "16", "--batch", "1", "--threads", "2", "--seconds", "0", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json row = Json::parse(run.out)["rows"][0];
  EXPECT_EQ(row["network"], "two");
  EXPECT_NEAR(row["mflop_per_image"].get<double>(), 2e-6 * (14 * 14 * 20 * 9 + 6 * 6 * 8 * 80), 1e-9);
  const std::string sized = dir_.Write("sized.txt",
                                       "input { height: 20 width: 18 resize: RESIZE_POLICY_STRETCH } "
                                       "layers { patch_size: 3 filters: 9 subsampling: 2 }");
  const Finished other_size = Ckn({"bench", "--recipe", sized, "--size", "16"});
  EXPECT_EQ(other_size.exit_code, 1);
  EXPECT_THAT(other_size.err, HasSubstr("sized.txt: --size: got 16, but the recipe has a size of its own, 20x18"));
  const Finished without_size = Ckn({"bench", "--recipe", path});
  EXPECT_EQ(without_size.exit_code, 1);
  EXPECT_THAT(without_size.err, HasSubstr("give --size"));
}

TEST_F(BenchTest, RefusesWhatCannotBeMeasured) {
  EXPECT_EQ(Ckn({"bench"}).exit_code, 2);
  EXPECT_EQ(Ckn({"bench", model_path_, "--size", "9"}).exit_code, 2);
  EXPECT_EQ(Ckn({"bench", "--arch", "ckn-gm1", "--batch", "0"}).exit_code, 2);
  const Finished large = Ckn({"bench", "--arch", "ckn-pm1", "--size", "1024", "--batch", "65536", "--seconds", "0"});
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_THAT(large.err, HasSubstr("a batch of 65536 images and their features takes 64"));
  for (const char* const seconds : {"nan", "inf", "-1", "3601", "1s"}) {
    const Finished run = Ckn({"bench", "--arch", "ckn-pm1", "--seconds", seconds});
    EXPECT_EQ(run.exit_code, 2) << seconds;
    EXPECT_THAT(run.err, HasSubstr(std::string("--seconds: Value ") + seconds + " not in range 0 to 3600"));
  }
  const Finished small = Ckn({"bench", "--arch", "ckn-pm1", "--size", "4"});
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.err, HasSubstr("ckn-pm1, 4 x 4 pixels: layer 1: patch_size: got 5"));
}

TEST(SimdEnvironmentTest, ChoosesTheInstructionSetOrSaysWhatThereIs) {
  const auto with = [](const std::string& target) {
    return testing::RunProgram({"/usr/bin/env", "CKN_SIMD=" + target, CKN_BINARY, "bench", "--arch", "ckn-gm1",
                                "--batch", "1", "--threads", "1", "--seconds", "0", "--json", "--precision",
                                "bfloat16"});
  };
  const Finished unknown = with("mmx");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, AllOf(StartsWith("CKN_SIMD: got \"mmx\""), HasSubstr("sse4")));
  const Finished help = testing::RunProgram({"/usr/bin/env", "CKN_SIMD=mmx", CKN_BINARY, "--help"});
  EXPECT_EQ(help.exit_code, 0) << help.err;
  for (const std::string& target : SimdTargets()) {
    const Finished run = with(target);
    ASSERT_EQ(run.exit_code, 0) << target << "\n" << run.err;
    EXPECT_EQ(Json::parse(run.out)["simd"], target);
  }
}

}  // namespace
}  // namespace ckn
