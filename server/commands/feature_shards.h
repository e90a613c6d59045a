#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The features of a data set as files that several machines write, each its part of the rows: in one folder
//   features-00002-of-00004.npy   float32 [rows][features]
//   features-00002-of-00004.json  what they are of, their rows and their SHA-256; written last, so that it stands for a
//                                 part that is complete
namespace ckn {

// Part `index`, from 0, of `count`.
struct Shard {
  int index = 0;
  int count = 1;
};

// "2/4". INVALID_ARGUMENT for all else, and for an index that is not below the count.
absl::StatusOr<Shard> ParseShard(const std::string& text);

// The rows [first, first + count) of `rows` that are a shard's: neighbours, and as many as the others', but for one.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;
};
RowRange RowsOf(const Shard& shard, std::size_t rows);

// What all shards of one array have in common.
struct FeatureSource {
  std::string model, model_sha256;
  std::string data, data_sha256;  // sha256: of the images, or of the names of files
  std::string split;              // empty for files
  std::int64_t images = 0;        // in all
  int features = 0;

  bool operator==(const FeatureSource&) const = default;
};

// Path of a shard's array; its manifest has .json at the end instead.
std::string ShardPath(const std::string& folder, const Shard& shard);

// Whether the shard is there already, whole. FAILED_PRECONDITION: there is one of something else.
absl::StatusOr<bool> ShardIsDone(const std::string& folder, const Shard& shard, const FeatureSource& source);

// Writes the manifest of an array that is there. `labels`: of the shard's rows, or empty.
absl::Status FinishShard(const std::string& folder, const Shard& shard, const FeatureSource& source,
                         const std::vector<int>& labels);

// Joins the shards of a folder into one .npy file, the same bytes that a single run writes, and says what of.
// FAILED_PRECONDITION: shards are missing or do not belong together; DATA_LOSS: one is damaged.
absl::StatusOr<FeatureSource> MergeShards(const std::string& folder, const std::string& out);

}  // namespace ckn
