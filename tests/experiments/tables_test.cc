#include "server/experiments/tables.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using Json = nlohmann::json;
using testing::TempDir;

// 28x28 pictures of a bar, horizontal in class 0 and vertical in class 1.
Dataset Bars(std::size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  Dataset data;
  data.title = "bars";
  data.height = data.width = 28;
  data.channels = 1;
  data.class_names = {"0", "1"};
  data.has_class_names = false;
  for (std::size_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(i % 2);
    const int position = 4 + static_cast<int>(rng() % 20);
    data.labels.push_back(rng() % 10 == 0 ? 1 - label : label);  // some are wrong, so that errors differ
    for (int y = 0; y < 28; ++y) {
      for (int x = 0; x < 28; ++x) {
        const bool inside = std::abs((label == 0 ? y : x) - position) < 2;
        data.pixels.push_back(static_cast<std::uint8_t>((inside ? 190 : 20) + rng() % 40));
      }
    }
  }
  return data;
}

Json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// What does not depend on the machine's speed.
Json Timeless(Json json) {
  for (const char* const key : {"seconds", "cpu_seconds", "peak_mib"}) json.erase(key);
  return json;
}

class TablesTest : public ::testing::Test {
 protected:
  TablesTest() {
    options_.cells = {{"ckn-gm1", 300, 1}, {"ckn-gm1", 1000, 1}, {"ckn-gm1", 300, 2}};
    options_.learning.pairs = 500;
    options_.learning.iterations = 5;
    options_.program_version = "test";
  }

  absl::Status Run(const Progress& progress = {}) {
    ThreadPool pool(2);
    return RunTable(options_, train_, test_, dir_.path(), pool, progress);
  }
  [[nodiscard]] std::string CellFile(const std::string& name) const {
    return dir_.File(absl::StrCat("cells/", name, ".json"));
  }

  const Dataset train_ = Bars(1200, 1);
  const Dataset test_ = Bars(101, 2);
  const TempDir dir_;
  TableOptions options_;
};

TEST_F(TablesTest, ACellIsWhatItsModelDoes) {
  options_.cells.resize(1);
  ASSERT_TRUE(Run().ok());
  const Json cell = ReadJson(CellFile("ckn-gm1-300-seed1"));
  EXPECT_EQ(cell["train_size"], 300);
  EXPECT_EQ(cell["validation"], "5-fold cross-validation");
  EXPECT_EQ(cell["validation_curve"].size(), 31U);
  EXPECT_GT(cell["seconds"], 0);

  const auto loaded = ReadModelFile(dir_.File("cache/ckn-gm1-300-seed1.ckn"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->model.provenance.train_count(), 300);
  const auto pipeline = Pipeline::Create(loaded->model);
  ASSERT_TRUE(pipeline.ok());
  std::vector<std::vector<int>> confusion(2, std::vector<int>(2));
  Json misclassified = Json::array();
  for (std::size_t i = 0; i < test_.size(); ++i) {
    const int predicted = ArgMax(*pipeline->Classify(test_.Image(i)));
    ++confusion[static_cast<std::size_t>(test_.labels[i])][static_cast<std::size_t>(predicted)];
    if (predicted != test_.labels[i]) misclassified.push_back({i, test_.labels[i], predicted});
  }
  EXPECT_EQ(cell["confusion"], confusion);
  EXPECT_EQ(cell["misclassified"], misclassified);
  EXPECT_EQ(cell["test_errors"], misclassified.size());
  EXPECT_DOUBLE_EQ(cell["test_error_percent"], 100.0 * static_cast<double>(misclassified.size()) / 101);
  EXPECT_GT(cell["test_errors"], 0);
  EXPECT_LT(cell["test_error_percent"], 30);

  const Json layers = ReadJson(dir_.File("layers/ckn-gm1-seed1.json"));
  EXPECT_EQ(layers["parameters"], 5400);
  EXPECT_EQ(layers["learned_on"], 1200);
  EXPECT_EQ(layers["layers"][0]["curve"].size(), 5U);
  EXPECT_EQ(layers["layers"][0]["curve"][4][1], layers["layers"][0]["objective"]);
}

TEST_F(TablesTest, FinishedCellsAreKeptAndTheOthersComeOutTheSame) {
  ASSERT_TRUE(Run().ok());
  std::vector<Json> before;
  for (const Cell& cell : options_.cells) before.push_back(ReadJson(CellFile(cell.Name())));
  std::filesystem::remove(CellFile("ckn-gm1-1000-seed1"));
  std::filesystem::remove_all(dir_.File("cache"));
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ReadJson(CellFile("ckn-gm1-300-seed1")), before[0]);  // times and all: it was not done again
  EXPECT_EQ(Timeless(ReadJson(CellFile("ckn-gm1-1000-seed1"))), Timeless(before[1]));
  EXPECT_FALSE(std::filesystem::exists(dir_.File("cache/ckn-gm1-300-seed1.ckn")));
  EXPECT_NE(before[0]["validation_curve"], before[2]["validation_curve"]);  // another seed, another subset
}

TEST_F(TablesTest, StopsOnRequestAndGoesOnLater) {
  std::atomic<bool> stop{false};
  Progress progress;
  progress.stop = &stop;
  progress.report = [&stop](const std::string& line) {
    if (line.find("1000-seed1: cell 2 of 3") != std::string::npos) stop = true;
  };
  EXPECT_EQ(Run(progress).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(std::filesystem::exists(CellFile("ckn-gm1-300-seed1")));
  EXPECT_FALSE(std::filesystem::exists(CellFile("ckn-gm1-1000-seed1")));
  ASSERT_TRUE(Run().ok());
  EXPECT_TRUE(std::filesystem::exists(CellFile("ckn-gm1-1000-seed1")));
  EXPECT_TRUE(std::filesystem::exists(CellFile("ckn-gm1-300-seed2")));
}

TEST_F(TablesTest, AVariantIsACellOfItsOwn) {
  options_.cells = {{"ckn-gm1", 300, 1}, {"ckn-gm1", 300, 1, -1, "nystrom"}};
  ASSERT_TRUE(Run().ok());
  const Json paper = ReadJson(CellFile("ckn-gm1-300-seed1"));
  const Json nystrom = ReadJson(CellFile("ckn-gm1-nystrom-300-seed1"));
  EXPECT_FALSE(paper.contains("variant"));
  EXPECT_EQ(nystrom["variant"], "nystrom");
  EXPECT_NE(paper["validation_curve"], nystrom["validation_curve"]);
  const auto loaded = ReadModelFile(dir_.File("cache/ckn-gm1-nystrom-300-seed1.ckn"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_GT(loaded->model.networks[0].layers[1].projection.size(), 0);
  EXPECT_EQ(ReadJson(dir_.File("layers/ckn-gm1-nystrom-seed1.json"))["variant"], "nystrom");
}

TEST_F(TablesTest, AVariantThatMeansNothingToACellIsRefusedBeforeAnyWork) {
  options_.cells.push_back({"ckn-gm1", 300, 1, -1, "whitened"});
  EXPECT_EQ(Run().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Run().message()), ::testing::HasSubstr("ckn-gm1-whitened-300-seed1: variant whitened"));
  EXPECT_FALSE(std::filesystem::exists(CellFile("ckn-gm1-300-seed1")));
}

TEST_F(TablesTest, DefaultsLeaveSigmaAndSupportToTheAlgorithm) {
  options_.cells = {{"ckn-gm1", 300, 1}, {"ckn-gm1", 300, 1, -1, "defaults"}};
  ASSERT_TRUE(Run().ok());
  const auto radius = [this](const char* name) {
    return ReadModelFile(dir_.File(name))->model.networks[0].layers[1].pooling_radius;
  };
  EXPECT_EQ(radius("cache/ckn-gm1-300-seed1.ckn"), 2 * 3);
  EXPECT_EQ(radius("cache/ckn-gm1-defaults-300-seed1.ckn"), 3);
}

// Features that several cells share and features made for one cell give the same model.
TEST_F(TablesTest, ACellByItselfComesOutAsAmongOthers) {
  ASSERT_TRUE(Run().ok());
  const Json among = ReadJson(CellFile("ckn-gm1-1000-seed1"));
  std::filesystem::remove_all(dir_.File("cells"));
  options_.cells = {{"ckn-gm1", 1000, 1}};
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Timeless(ReadJson(CellFile("ckn-gm1-1000-seed1"))), Timeless(among));
}

TEST_F(TablesTest, ACellThatCannotBeIsAnErrorThatSaysWhy) {
  options_.cells = {{"ckn-gm1", 2000, 1}};
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("got 2000, expected at most the 1200"));
}

// 96x96 colour noise with a brighter upper half in class 0, written as the files of STL-10.
void WriteStl10(const TempDir& dir, const std::string& split, std::size_t count, unsigned seed) {
  constexpr std::size_t kPlane = std::size_t{96} * 96;
  std::mt19937 rng(seed);
  std::string pixels, labels;
  for (std::size_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(i % 2);
    labels.push_back(static_cast<char>(label + 1));
    for (std::size_t k = 0; k < 3 * kPlane; ++k) {
      const bool upper = k % 96 < 48;  // columns are stored one after another
      pixels.push_back(static_cast<char>(40 + rng() % (upper == (label == 0) ? 160 : 30)));
    }
  }
  dir.Write(split + "_X.bin", pixels);
  dir.Write(split + "_y.bin", labels);
}

// From files as STL-10 has them to a cell: two folds, combination included.
TEST(Stl10Test, FoldsOfGeneratedFiles) {
  const TempDir data, results;
  WriteStl10(data, "train", 24, 1);
  WriteStl10(data, "test", 8, 2);
  data.Write("fold_indices.txt", "0 1 2 3 4 5 6 7 8 9 10 11\n12 13 14 15 16 17 18 19 20 21 22 23\n");
  data.Write("class_names.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
  absl::StatusOr<Dataset> train = LoadDataset("stl10:" + data.path(), Split::kTrain);
  absl::StatusOr<Dataset> test = LoadDataset("stl10:" + data.path(), Split::kTest);
  ASSERT_TRUE(train.ok() && test.ok()) << train.status() << test.status();
  ASSERT_EQ(train->folds.size(), 2U);
  train->class_names = test->class_names = {"a", "b"};

  TableOptions options;
  options.cells = Stl10Cells(1, static_cast<int>(train->folds.size()));
  ASSERT_EQ(options.cells.size(), 6U);
  options.learning.pairs = 1000;
  options.learning.iterations = 1;
  options.learning.kmeans_iterations = 1;
  ThreadPool pool(2);
  const absl::Status status = RunTable(options, *train, *test, results.path(), pool, {});
  ASSERT_TRUE(status.ok()) << status;
  for (const Cell& cell : options.cells) {
    const Json json = ReadJson(results.File(absl::StrCat("cells/", cell.Name(), ".json")));
    EXPECT_EQ(json["fold"], cell.fold);
    EXPECT_LE(json["test_error_percent"], 25) << cell.Name();
    const auto loaded = ReadModelFile(results.File(absl::StrCat("cache/", cell.Name(), ".ckn")));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->model.provenance.train_count(), 12);
    EXPECT_EQ(loaded->model.networks.size(), cell.architecture == "ckn-co-stl10" ? 2U : 1U);
  }
  // The combination used the networks that were learned before: no layers of its own.
  EXPECT_TRUE(std::filesystem::exists(results.File("layers/ckn-pm-stl10-seed1.json")));
  EXPECT_FALSE(std::filesystem::exists(results.File("layers/ckn-co-stl10-seed1.json")));
}

TEST(CellsTest, OneSeedIsTheWholeTable1MoreRepeatWhereSubsetsMatter) {
  const std::vector<Cell> one = Table1Cells(1);
  EXPECT_EQ(one.size(), 32U + 1);
  const std::vector<Cell> three = Table1Cells(3);
  EXPECT_EQ(three.size(), 32U + 1 + 2 * (4 * 5 + 2 + 1));
  std::set<std::string> names;
  for (const Cell& cell : three) names.insert(cell.Name());
  EXPECT_EQ(names.size(), three.size());
  EXPECT_TRUE(std::equal(one.begin(), one.end(), three.begin()));
  EXPECT_TRUE(names.contains("ckn-pm1-60000-seed3"));
  EXPECT_FALSE(names.contains("ckn-pm2-60000-seed2"));
  EXPECT_TRUE(names.contains("ckn-co-mnist-60000-seed2"));
}

TEST(CellsTest, Cifar10HasTheTableAndTheLargerNetworkByItsOwnMethod) {
  std::vector<std::string> names;
  for (const Cell& cell : Cifar10Cells(1)) names.push_back(cell.Name());
  EXPECT_THAT(names, ::testing::ElementsAre("ckn-gm-cifar10-50000-seed1", "ckn-pm-cifar10-50000-seed1",
                                            "ckn-co-cifar10-50000-seed1", "ckn-wide-cifar10-nystrom-50000-seed1"));
}

}  // namespace
}  // namespace ckn
