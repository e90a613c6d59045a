#include "server/training/feature_shards.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/npy.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::TempDir;

FeatureSource Unscaled() {
  FeatureSource source;
  source.model = "m";
  source.model_sha256 = "ab";
  source.data = "stl10:x";
  source.data_sha256 = "cd";
  source.split = "train";
  source.images = 5;
  source.features = 2;
  source.standardized = false;
  source.class_names = {"caf\u00e9", "\"b\""};
  source.has_class_names = false;
  source.folds = {{0, 2, 4}, {}, {1}};
  source.decoders = "libjpeg 6";
  return source;
}

// Floats whose decimal forms are long, or at the ends of the range.
const std::vector<std::vector<float>> kResiduals = {
    {0.1F, std::numbers::pi_v<float>, 1.0F / 3, -0.0F, 1e-45F},
    {std::numeric_limits<float>::max(), std::numeric_limits<float>::min(), 1, 0, -2.7182817F}};

// The five rows in three shards: two, two, one.
void WriteShards(const std::string& folder, const FeatureSource& source) {
  const std::vector<int> labels = {0, 1, 1, 0, 1};
  for (int i = 0; i < 3; ++i) {
    const Shard shard{.index = i, .count = 3};
    const RowRange range = RowsOf(shard, 5);
    std::vector<float> values;
    ShardRows rows;
    rows.residuals.resize(kResiduals.size());
    for (std::size_t row = range.first; row < range.first + range.count; ++row) {
      values.insert(values.end(), {static_cast<float>(row), static_cast<float>(row) + 0.5F});
      rows.labels.push_back(labels[row]);
      for (std::size_t k = 0; k < kResiduals.size(); ++k) rows.residuals[k].push_back(kResiduals[k][row]);
    }
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(range.count), 2};
    auto writer = NpyWriter::Create(ShardPath(folder, shard), shape);
    ASSERT_TRUE(writer.ok() && writer->Append(values).ok() && writer->Close().ok());
    ASSERT_TRUE(FinishShard(folder, shard, source, writer->Sha256(), rows).ok());
  }
}

TEST(FeatureShardsTest, WhatIsWrittenIsRead) {
  const TempDir dir;
  WriteShards(dir.path(), Unscaled());
  const absl::StatusOr<FeatureShards> shards = FeatureShards::Open(dir.path());
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_EQ(shards->source(), Unscaled());
  EXPECT_EQ(shards->count(), 3);
  EXPECT_THAT(shards->rows().labels, ElementsAre(0, 1, 1, 0, 1));
  EXPECT_EQ(shards->rows().residuals, kResiduals);
  EXPECT_TRUE(std::signbit(shards->rows().residuals[0][3]));
  std::vector<float> values;
  ASSERT_TRUE(shards
                  ->Read(1,
                         [&](std::size_t first, std::span<const float> rows) {
                           EXPECT_EQ(first, 2U);
                           values.assign(rows.begin(), rows.end());
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_THAT(values, ElementsAre(2, 2.5, 3, 3.5));
  // Whether it is there whole already depends on all that it is of.
  const Shard shard{.index = 2, .count = 3};
  EXPECT_TRUE(*ShardIsDone(dir.path(), shard, Unscaled()));
  FeatureSource other = Unscaled();
  other.folds[2] = {0};
  EXPECT_THAT(std::string(ShardIsDone(dir.path(), shard, other).status().message()),
              HasSubstr("is of another run; folds: got [[0,2,4],[],[1]], expected [[0,2,4],[],[0]]"));
  other = Unscaled();
  other.decoders = "libjpeg 7";
  EXPECT_THAT(std::string(ShardIsDone(dir.path(), shard, other).status().message()),
              HasSubstr("decoders: got \"libjpeg 6\", expected \"libjpeg 7\""));
}

// Whatever a manifest says, it is read or refused.
TEST(FeatureShardsTest, ManifestsThatCannotBeAreRefused) {
  const TempDir dir;
  WriteShards(dir.path(), Unscaled());
  const std::string path =
      std::filesystem::path(ShardPath(dir.path(), {.index = 2, .count = 3})).replace_extension(".json");
  std::ifstream file(path);
  Json good = Json::parse(file);
  ASSERT_EQ(good.erase("manifest_sha256"), 1U);
  const std::vector<std::function<void(Json&)>> changes = {
      [](Json& json) { json.erase("model"); },
      [](Json& json) { json.erase("labels"); },
      [](Json& json) { json.erase("residuals"); },
      [](Json& json) { json.erase("classes"); },
      [](Json& json) { json.erase("named_classes"); },
      [](Json& json) { json.erase("folds"); },
      [](Json& json) { json.erase("decoders"); },
      [](Json& json) { json["standardized"] = "no"; },
      [](Json& json) { json.erase("standardized"); },
      [](Json& json) { json["images"] = -1; },
      [](Json& json) { json["images"] = std::uint64_t{1} << 60; },
      [](Json& json) { json["features"] = 0; },
      [](Json& json) { json["features"] = std::uint64_t{1} << 32; },
      [](Json& json) { json["features"] = 2.5; },
      [](Json& json) { json["shards"] = 0; },
      [](Json& json) { json["shard"] = 3; },
      [](Json& json) { json["labels"] = Json::array(); },
      [](Json& json) { json["labels"] = {2}; },
      [](Json& json) { json["labels"] = {-1}; },
      [](Json& json) {
        json["residuals"] = {{0.5}, {0.5, 0.5}};
      },
      [](Json& json) {
        json["residuals"] = {{0.5}, {nullptr}};
      },
      [](Json& json) {
        json["residuals"] = {{0.5}, {1e39}};
      },
      [](Json& json) {
        json["classes"] = {"a", 1};
      },
      [](Json& json) { json["folds"] = {{5}}; },
      [](Json& json) {
        json["folds"] = {{1, 1}};
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Json changed = good;
    changes[i](changed);
    std::ofstream(path) << WithDigest(changed.dump());
    const absl::Status status = FeatureShards::Open(dir.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << i << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("00002-of-00003.json: not a manifest")) << i;
  }
  Json fewer = good;
  fewer["residuals"] = {{0.5}};
  std::ofstream(path) << WithDigest(fewer.dump());
  EXPECT_THAT(std::string(FeatureShards::Open(dir.path()).status().message()),
              HasSubstr("00002-of-00003.json: residuals: got those of 1 networks, expected 2"));
  std::ofstream(path) << WithDigest(good.dump());
  EXPECT_TRUE(FeatureShards::Open(dir.path()).ok());
}

TEST(FeatureShardsTest, ADamagedManifestIsToldFromAWholeOneAndMadeAgain) {
  const TempDir dir;
  WriteShards(dir.path(), Unscaled());
  const Shard shard{.index = 1, .count = 3};
  const std::string path = std::filesystem::path(ShardPath(dir.path(), shard)).replace_extension(".json");
  std::ifstream file(path);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> damaged = {
      "", "[]", "{}", good.substr(0, good.size() / 2), good + " ", good + std::string(1000, '\0')};
  for (std::size_t i = 0; i < good.size(); i += 7) {
    damaged.push_back(good);
    damaged.back()[i] ^= 1;
  }
  for (const std::string& bytes : damaged) {
    std::ofstream(path) << bytes;
    const absl::Status status = FeatureShards::Open(dir.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bytes;
    EXPECT_THAT(std::string(status.message()), HasSubstr("00001-of-00003.json: damaged")) << bytes;
    EXPECT_FALSE(*ShardIsDone(dir.path(), shard, Unscaled())) << bytes;
  }
  std::ofstream(path) << good;
  EXPECT_TRUE(*ShardIsDone(dir.path(), shard, Unscaled()));
}

TEST(FeatureShardsTest, AShardUnderAnothersNameIsMadeAgain) {
  const TempDir dir;
  WriteShards(dir.path(), Unscaled());
  const Shard first{.index = 0, .count = 3};
  for (const Shard& other : {Shard{.index = 1, .count = 3}, Shard{.index = 0, .count = 1}}) {
    for (const char* const extension : {".npy", ".json"}) {
      std::filesystem::copy_file(std::filesystem::path(ShardPath(dir.path(), first)).replace_extension(extension),
                                 std::filesystem::path(ShardPath(dir.path(), other)).replace_extension(extension),
                                 std::filesystem::copy_options::overwrite_existing);
    }
    EXPECT_FALSE(*ShardIsDone(dir.path(), other, Unscaled()));
  }
}

// Two runs that write to one folder at a time: the array of one beside the manifest of the other.
TEST(FeatureShardsTest, AManifestIsOfTheArrayThatWasWrittenWithIt) {
  const TempDir dir;
  WriteShards(dir.path(), Unscaled());
  const Shard shard{.index = 2, .count = 3};
  const std::string array = ShardPath(dir.path(), shard);
  auto writer = NpyWriter::Create(array, std::vector<std::int64_t>{1, 2});
  ASSERT_TRUE(writer.ok() && writer->Append(std::vector<float>{7, 8}).ok() && writer->Close().ok());
  const absl::StatusOr<FeatureShards> shards = FeatureShards::Open(dir.path());
  ASSERT_TRUE(shards.ok()) << shards.status();
  const auto take = [](std::size_t, std::span<const float>) { return absl::OkStatus(); };
  EXPECT_THAT(std::string(shards->Read(2, take).message()), HasSubstr("got SHA-256 " + writer->Sha256()));
  EXPECT_FALSE(*ShardIsDone(dir.path(), shard, Unscaled()));
}

TEST(FeatureShardsTest, MergingDoesNotWriteOverAShard) {
  const TempDir dir;
  WriteShards(dir.path(), Unscaled());
  const std::string array = ShardPath(dir.path(), {.index = 1, .count = 3});
  EXPECT_EQ(MergeShards(dir.path(), array).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(MergeShards(dir.path(), dir.File("all.npy")).ok());
}

}  // namespace
}  // namespace ckn
