// ckn encode --unscaled and ckn refit --features as the real program: what comes out, and what is refused.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/model_file.h"
#include "server/training/feature_shards.h"
#include "tests/e2e/process.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using Arguments = std::vector<std::string>;
using testing::EncodePnm;
using testing::Finished;
using testing::TempDir;
using testing::TinyImage;
using testing::TinyModel;

Finished Ckn(Arguments arguments) {
  arguments.insert(arguments.begin(), CKN_BINARY);
  return testing::RunProgram(arguments);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Two networks side by side.
Model PairModel() {
  Model model = TinyModel({.name = "pair", .filters = 5, .seed = 2});
  model.networks.push_back(TinyModel({.filters = 3, .seed = 3}).networks.front());
  Eigen::Index features = 0;
  for (const Network& network : model.networks) features += network.standardization.mean.size();
  model.svm.weights = RowMatrixF::Ones(model.svm.classes(), features);
  return model;
}

// Writes a manifest anew as if ckn encode had written it so.
template <typename Change>
void ChangeManifest(const std::string& path, const Change& change) {
  Json manifest = Json::parse(ReadAll(path));
  ASSERT_EQ(manifest.erase("manifest_sha256"), 1U);
  change(manifest);
  std::ofstream(path) << WithDigest(manifest.dump());
}

// The models tiny and pair, of one and two networks, and a data set of two splits, many of whose images are told apart
// with difficulty.
class RefitFeaturesTest : public ::testing::Test {
 protected:
  RefitFeaturesTest() {
    EXPECT_TRUE(WriteModelFile(TinyModel(), tiny_).ok());
    EXPECT_TRUE(WriteModelFile(PairModel(), pair_).ok());
    WriteData("data", 0);
  }

  void WriteData(const std::string& name, std::uint64_t seed) const {
    const Model model = TinyModel();
    for (const bool train : {true, false}) {
      for (int label = 0; label < 3; ++label) {
        const std::string folder = absl::StrCat(name, train ? "/train/" : "/test/", std::string(1, "abc"[label]));
        std::filesystem::create_directories(dir_.File(folder));
        for (int i = 0; i < (train ? 20 : 7); ++i) {
          ImageU8 image = TinyImage(model, ++seed);
          for (std::size_t k = 0; k < image.pixels.size(); ++k) {
            if (static_cast<int>(k % 8 / 3) == label)
              image.pixels[k] = static_cast<std::uint8_t>(image.pixels[k] * 3 / 4);
          }
          dir_.Write(absl::StrCat(folder, "/", 10 + i, ".pgm"), EncodePnm(image));
        }
      }
    }
  }

  // All shards of a split into a folder, whose path it returns.
  [[nodiscard]] std::string Encode(const std::string& model, const std::string& folder, int shards,
                                   const std::string& split = "train", const std::string& data = "data",
                                   bool unscaled = true) const {
    const std::string out = dir_.File(folder);
    for (int i = 0; i < shards; ++i) {
      Arguments arguments = {"encode",  model, "--data",  Data(data),
                             "--split", split, "--shard", absl::StrCat(i, "/", shards),
                             "--out",   out};
      if (unscaled) arguments.emplace_back("--unscaled");
      const Finished run = Ckn(arguments);
      EXPECT_EQ(run.exit_code, 0) << run.err;
    }
    return out;
  }

  [[nodiscard]] std::string Data(const std::string& name = "data") const { return "images:" + dir_.File(name); }

  // The model file of ckn refit with these arguments and few values of C.
  [[nodiscard]] std::string Refit(Arguments arguments, const Arguments& more) const {
    arguments.insert(arguments.begin(), "refit");
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.end(), {"--out", out_});
    const Finished run = Ckn(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::string file = ReadAll(out_);
    std::filesystem::remove(out_);
    EXPECT_FALSE(file.empty());
    return file;
  }

  // What ckn refit says that refuses these arguments.
  [[nodiscard]] std::string Refused(Arguments arguments, int exit_code = 1) const {
    arguments.insert(arguments.begin(), "refit");
    arguments.insert(arguments.end(), {"--out", out_});
    const Finished run = Ckn(arguments);
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_FALSE(std::filesystem::exists(out_));
    EXPECT_THAT(run.err, Not(HasSubstr("classifier: "))) << "found out before the work";
    return run.err;
  }

  TempDir dir_;
  const std::string tiny_ = dir_.File("tiny.ckn"), pair_ = dir_.File("pair.ckn"), out_ = dir_.File("out.ckn");
};

// However the images are chosen and C is, for networks of one file and of two.
TEST_F(RefitFeaturesTest, GiveTheModelFileThatTheImagesGive) {
  const std::string train = Encode(tiny_, "train", 3), whole = Encode(tiny_, "whole", 1),
                    pair_train = Encode(pair_, "pair-train", 4), test = Encode(tiny_, "test", 2, "test"),
                    pair_test = Encode(pair_, "pair-test", 1, "test");
  const Arguments grid = {"--c-min", "-4", "--c-max", "3"};
  std::vector<Arguments> choices = {{},
                                    {"--validation-size", "15"},
                                    {"--train-size", "40", "--seed", "3"},
                                    {"--validation-size", "11", "--train-size", "31", "--name", "x"},
                                    {"--folds", "3"}};
  for (Arguments& choice : choices) choice.insert(choice.end(), grid.begin(), grid.end());
  choices.push_back({"--c-min", "-2", "--c-max", "-2"});
  choices.push_back({"--class-names", dir_.Write("names.txt", "A\nB\nC\n"), "--c-min", "0", "--c-max", "0"});
  struct Expected {
    std::string tiny, tiny_untested, both;
  };
  std::vector<Expected> expected;
  for (const Arguments& choice : choices) {
    expected.push_back({.tiny = Refit({tiny_, "--data", Data()}, choice),
                        .tiny_untested = Refit({tiny_, "--data", Data(), "--skip-test"}, choice),
                        .both = Refit({tiny_, pair_, "--data", Data()}, choice)});
  }
  // No image is read from here on.
  std::filesystem::remove_all(dir_.File("data"));
  for (std::size_t i = 0; i < choices.size(); ++i) {
    SCOPED_TRACE(::testing::PrintToString(choices[i]));
    EXPECT_EQ(Refit({tiny_, "--features", train, "--test-features", test}, choices[i]), expected[i].tiny);
    EXPECT_EQ(Refit({tiny_, "--features", whole, "--test-features", test, "--threads", "3"}, choices[i]),
              expected[i].tiny);
    EXPECT_EQ(Refit({tiny_, "--features", train}, choices[i]), expected[i].tiny_untested);
    EXPECT_EQ(Refit({tiny_, pair_, "--features", whole, pair_train, "--test-features", test, pair_test}, choices[i]),
              expected[i].both);
  }

  // They are not all alike, and hold what the comparison is about.
  EXPECT_NE(expected[0].tiny, expected[1].tiny);
  EXPECT_NE(expected[0].tiny, expected[2].tiny);
  EXPECT_NE(expected[0].tiny, expected[0].tiny_untested);
  const std::string& both = expected[0].both;
  const absl::StatusOr<Model> model = ParseModelFile(std::as_bytes(std::span(both)), {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->networks.size(), 3U);
  EXPECT_EQ(model->residual_quantiles.size(), 60U);
  EXPECT_LT(model->residual_quantiles.front(), model->residual_quantiles.back());
  EXPECT_EQ(model->provenance.test_count(), 21);
  EXPECT_GT(model->provenance.test_error_percent(), 0);
  EXPECT_LT(model->provenance.test_error_percent(), 60);
  EXPECT_EQ(model->provenance.dataset(), "images:data");
  EXPECT_THAT(model->provenance.decoders(), HasSubstr("libjpeg"));
  const std::string& folds = expected[4].tiny;
  const absl::StatusOr<Model> by_folds = ParseModelFile(std::as_bytes(std::span(folds)), {});
  ASSERT_TRUE(by_folds.ok()) << by_folds.status();
  EXPECT_EQ(by_folds->provenance.validation(), "3-fold cross-validation");
}

// Of the machines that read the images, not of the one that trains.
TEST_F(RefitFeaturesTest, TheModelTellsTheDecodersOfTheShards) {
  const std::string train = Encode(tiny_, "train", 1), path = train + "/features-00000-of-00001.json";
  ChangeManifest(path, [](Json& manifest) { manifest["decoders"] = "libother 1"; });
  const std::string file = Refit({tiny_, "--features", train}, {"--c-min", "0", "--c-max", "0"});
  EXPECT_EQ(ParseModelFile(std::as_bytes(std::span(file)), {})->provenance.decoders(), "libother 1");
}

// Behind a projection there is no residual, so there is none of the networks together.
TEST_F(RefitFeaturesTest, OneNetworkWithoutResidualsIsEnoughForNone) {
  Model model = TinyModel({.name = "projected", .seed = 4});
  model.networks.front().layers.back().projection = RowMatrixF::Identity(4, 4);
  const std::string projected = dir_.File("projected.ckn");
  ASSERT_TRUE(WriteModelFile(model, projected).ok());
  const std::string train = Encode(tiny_, "train", 2), projected_train = Encode(projected, "projected-train", 1);
  const Arguments fixed = {"--c-min", "0", "--c-max", "0"};
  const std::string file = Refit({tiny_, projected, "--features", train, projected_train}, fixed);
  EXPECT_EQ(file, Refit({tiny_, projected, "--data", Data(), "--skip-test"}, fixed));
  EXPECT_TRUE(ParseModelFile(std::as_bytes(std::span(file)), {})->residual_quantiles.empty());
  // Where there must be some, a manifest without them is not one that ckn encode writes for this model.
  const std::string path = train + "/features-0000";
  for (const char* const shard : {"0-of-00002.json", "1-of-00002.json"}) {
    ChangeManifest(path + shard, [](Json& manifest) { manifest["residuals"] = Json::array(); });
  }
  EXPECT_THAT(Refused({tiny_, "--features", train}),
              HasSubstr("train: residuals: got those of 0 networks, expected 1"));
}

// An IDX set has no names: classes are told by their numbers, from shards as from images.
TEST_F(RefitFeaturesTest, ClassesWithoutNamesAreToldByTheirNumbers) {
  const auto number = [](int value) {
    return std::string{0, 0, static_cast<char>(value / 256), static_cast<char>(value % 256)};
  };
  std::filesystem::create_directory(dir_.File("idx"));
  for (const std::string split : {"train", "t10k"}) {
    std::string pixels = number(0x803) + number(12) + number(8) + number(8);
    std::string labels = number(0x801) + number(12);
    for (int i = 0; i < 12; ++i) {
      labels.push_back(static_cast<char>(split == "train" ? i % 2 : i % 3));
      for (const std::uint8_t pixel : TinyImage(TinyModel(), static_cast<std::uint64_t>(i)).pixels) {
        pixels.push_back(static_cast<char>(pixel));
      }
    }
    dir_.Write("idx/" + split + "-images-idx3-ubyte", pixels);
    dir_.Write("idx/" + split + "-labels-idx1-ubyte", labels);
  }
  const std::string data = "mnist:" + dir_.File("idx"), train = dir_.File("train"), test = dir_.File("test");
  for (const std::string split : {"train", "test"}) {
    const Finished run = Ckn(
        {"encode", tiny_, "--data", data, "--split", split, "--unscaled", "--shard", "0/1", "--out", dir_.File(split)});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  const Arguments fixed = {"--c-min", "0", "--c-max", "0"};
  EXPECT_EQ(Refit({tiny_, "--features", train}, fixed), Refit({tiny_, "--data", data, "--skip-test"}, fixed));
  const std::string too_many = "test split: got 3 classes, expected at most the 2 of the model";
  EXPECT_THAT(Refused({tiny_, "--data", data}), HasSubstr(too_many));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--test-features", test}), HasSubstr(too_many));
}

TEST_F(RefitFeaturesTest, UnscaledShardsJoinToTheFileOfASingleRun) {
  const std::string folder = Encode(pair_, "train", 3), whole = dir_.File("whole.npy"),
                    joined = dir_.File("joined.npy");
  const Arguments encode = {"encode", pair_, "--data", Data(), "--split", "train", "--out"};
  Arguments run = encode;
  run.insert(run.end(), {whole, "--unscaled"});
  ASSERT_EQ(Ckn(run).exit_code, 0);
  ASSERT_EQ(Ckn({"merge", folder, "--out", joined}).exit_code, 0);
  EXPECT_EQ(ReadAll(joined), ReadAll(whole));
  run = encode;
  run.push_back(dir_.File("scaled.npy"));
  ASSERT_EQ(Ckn(run).exit_code, 0);
  EXPECT_EQ(ReadAll(whole).size(), ReadAll(dir_.File("scaled.npy")).size());
  EXPECT_NE(ReadAll(whole), ReadAll(dir_.File("scaled.npy")));
  EXPECT_THAT(Refused({pair_, "--features", whole}), HasSubstr("whole.npy: "));
}

TEST_F(RefitFeaturesTest, ShardsThatAreNotWholeAreNamed) {
  const std::string train = Encode(tiny_, "train", 3), test = Encode(tiny_, "test", 2, "test");
  const std::string part = train + "/features-00001-of-00003", test_part = test + "/features-00001-of-00002";
  const Arguments refit = {tiny_, "--features", train, "--test-features", test};
  const std::string array = ReadAll(part + ".npy"), manifest = ReadAll(part + ".json");

  std::filesystem::remove(part + ".npy");
  EXPECT_THAT(Refused(refit), HasSubstr("train/features-00001-of-00003.npy: cannot open"));
  std::ofstream(part + ".npy") << array.substr(0, array.size() - 4);
  EXPECT_THAT(Refused(refit), AllOf(HasSubstr(absl::StrCat("features-00001-of-00003.npy: got ", array.size() - 4,
                                                           " bytes, expected ", array.size())),
                                    HasSubstr("encode this shard again")));
  std::string damaged = array;
  damaged[damaged.size() - 1] ^= 1;
  std::ofstream(part + ".npy") << damaged;
  EXPECT_THAT(Refused(refit),
              AllOf(HasSubstr("features-00001-of-00003.npy: got SHA-256"), HasSubstr("encode this shard again")));
  // Also when few of the rows are needed.
  EXPECT_THAT(Refused({tiny_, "--features", train, "--train-size", "3", "--c-min", "0", "--c-max", "0"}),
              HasSubstr("got SHA-256"));
  std::ofstream(part + ".npy") << array;

  std::filesystem::remove(part + ".json");
  EXPECT_THAT(Refused(refit), HasSubstr("train: got 2 of 3 shards; missing: 1"));
  std::ofstream(part + ".json") << manifest.substr(0, manifest.size() / 2);
  EXPECT_THAT(Refused(refit),
              HasSubstr("features-00001-of-00003.json: damaged, or not a manifest of ckn encode --shard"));
  std::ofstream(part + ".json") << manifest;

  damaged = ReadAll(test_part + ".npy");
  damaged[damaged.size() - 1] ^= 1;
  std::ofstream(test_part + ".npy") << damaged;
  EXPECT_THAT(Refused(refit), HasSubstr("test/features-00001-of-00002.npy: got SHA-256"));
  std::filesystem::remove(test_part + ".json");
  EXPECT_THAT(Refused(refit), HasSubstr("test: got 1 of 2 shards; missing: 1"));
  EXPECT_THAT(Refused({tiny_, "--features", dir_.File("none")}), HasSubstr("none: "));
  EXPECT_FALSE(Refit({tiny_, "--features", train}, {"--c-min", "0", "--c-max", "0"}).empty());
}

TEST_F(RefitFeaturesTest, FeaturesOfSomethingElseAreRefused) {
  const std::string train = Encode(tiny_, "train", 2), pair_train = Encode(pair_, "pair-train", 1),
                    test = Encode(tiny_, "test", 1, "test");
  // Another model, or the right ones in the wrong order.
  EXPECT_THAT(Refused({pair_, "--features", train}),
              AllOf(HasSubstr("train: model_sha256: got "), HasSubstr(" (tiny), expected "), HasSubstr(" (pair)")));
  EXPECT_THAT(Refused({tiny_, pair_, "--features", pair_train, train}), HasSubstr("in the order of the model files"));
  // The other split.
  EXPECT_THAT(Refused({tiny_, "--features", test}), HasSubstr("test: split: got \"test\", expected \"train\""));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--test-features", train}),
              HasSubstr("train: split: got \"train\", expected \"test\""));
  // Standardised rows.
  const std::string scaled = Encode(tiny_, "scaled", 1, "train", "data", /*unscaled=*/false);
  EXPECT_THAT(Refused({tiny_, "--features", scaled}),
              HasSubstr("scaled: got standardised features, expected those of ckn encode --unscaled"));
  // Files have no labels.
  const std::string image = dir_.File("data/train/a/10.pgm"), files = dir_.File("files");
  ASSERT_EQ(Ckn({"encode", tiny_, "--images", image, "--unscaled", "--shard", "0/1", "--out", files}).exit_code, 0);
  EXPECT_THAT(Refused({tiny_, "--features", files}),
              HasSubstr("files: got features of files, expected those of a data set, which has labels"));
  // Other images for the second model: of another folder, or changed meanwhile.
  WriteData("other", 1000);
  const std::string other = Encode(pair_, "pair-other", 1, "train", "other");
  EXPECT_THAT(
      Refused({tiny_, pair_, "--features", train, other}),
      AllOf(HasSubstr("pair-other: data: got \"images:other\", expected \"images:data\" as in "), HasSubstr("/train")));
  const std::string other_test = Encode(tiny_, "other-test", 1, "test", "other");
  EXPECT_THAT(Refused({tiny_, "--features", train, "--test-features", other_test}),
              HasSubstr("other-test: data: got images:other, expected images:data"));
  std::filesystem::rename(dir_.File("data"), dir_.File("before"));
  std::filesystem::rename(dir_.File("other"), dir_.File("data"));
  const std::string changed = Encode(pair_, "pair-changed", 1);
  EXPECT_THAT(Refused({tiny_, pair_, "--features", train, changed}), HasSubstr("pair-changed: data_sha256: got "));
  // Labels that are not those of the other folder.
  const std::string path = pair_train + "/features-00000-of-00001.json";
  ChangeManifest(path, [](Json& manifest) {
    ASSERT_EQ(manifest["labels"][59], 2);
    manifest["labels"][59] = 1;
  });
  EXPECT_THAT(Refused({tiny_, pair_, "--features", train, pair_train}), HasSubstr("pair-train: other labels as in "));
  ChangeManifest(path, [](Json& manifest) { manifest["labels"][59] = 3; });
  EXPECT_THAT(Refused({tiny_, pair_, "--features", train, pair_train}), HasSubstr("not a manifest"));
}

TEST_F(RefitFeaturesTest, AFolderHasOneKindOfFeatures) {
  const std::string scaled = Encode(tiny_, "scaled", 2, "train", "data", /*unscaled=*/false);
  const Arguments encode = {"encode", tiny_, "--data", Data(), "--split", "train", "--shard", "0/2", "--out", scaled};
  Arguments unscaled = encode;
  unscaled.emplace_back("--unscaled");
  const Finished run = Ckn(unscaled);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("is of another run; got standardised features, expected unscaled"));
  EXPECT_THAT(Ckn(encode).err, HasSubstr("is there already"));
  EXPECT_EQ(Ckn({"merge", scaled, "--out", dir_.File("joined.npy")}).exit_code, 0);
  // One of each.
  std::filesystem::remove(scaled + "/features-00000-of-00002.json");
  ASSERT_EQ(Ckn(unscaled).exit_code, 0);
  EXPECT_THAT(Ckn({"merge", scaled, "--out", dir_.File("mixed.npy")}).err,
              HasSubstr("got standardised features, expected unscaled"));
  EXPECT_FALSE(std::filesystem::exists(dir_.File("mixed.npy")));
}

TEST_F(RefitFeaturesTest, WrongUse) {
  const std::string train = Encode(tiny_, "train", 1), test = Encode(tiny_, "test", 1, "test");
  EXPECT_THAT(Refused({tiny_, pair_, "--features", train}, 2),
              HasSubstr("--features: got 1, expected 2: one for each model file"));
  EXPECT_THAT(Refused({tiny_, "--features", train, train}, 2), HasSubstr("--features: got 2, expected 1"));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--test-features", test, test}, 2),
              HasSubstr("--test-features: got 2, expected 1"));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--data", Data()}, 2), HasSubstr("--data"));
  EXPECT_THAT(Refused({tiny_}, 2), HasSubstr("--features"));
  EXPECT_THAT(Refused({tiny_, "--data", Data(), "--test-features", test}, 2), HasSubstr("--features"));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--test-features", test, "--skip-test"}, 2),
              HasSubstr("--skip-test"));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--fold", "0"}),
              HasSubstr("fold: got 0, but the data set has none"));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--train-size", "61"}),
              HasSubstr("got 61, expected at most the 60"));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--validation-size", "9", "--c-min", "1", "--c-max", "1"}, 2),
              HasSubstr("--validation-size: got 9, but --c-min 1 and --c-max 1 leave nothing to validate"));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--folds", "3", "--c-min", "1", "--c-max", "1"}, 2),
              HasSubstr("--folds: got 3, but --c-min 1 and --c-max 1 leave nothing to validate"));
  EXPECT_THAT(Refused({tiny_, "--features", train, "--folds", "3", "--validation-size", "9"}, 2),
              HasSubstr("--folds: got 3, but --validation-size 9 asks for no cross-validation"));
}

}  // namespace
}  // namespace ckn
