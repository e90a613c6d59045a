#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The features of a data set as files that several machines write, each its part of the rows: in one folder
//   features-00002-of-00004.npy   float32 [rows][features]
//   features-00002-of-00004.json  what they are of, their rows and their SHA-256, and last its own; written last, so
//   that
//                                 it stands for a part that is complete
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
  // Centred and scaled, as the classifier sees them; else as the networks give them, for a classifier to be trained on.
  bool standardized = true;

  // For the training, so only of features that are not standardised: see DatasetLabels and Provenance. No classes, no
  // folds: files.
  std::vector<std::string> class_names;
  bool has_class_names = true;
  std::vector<std::vector<std::size_t>> folds;
  std::string decoders;

  bool operator==(const FeatureSource&) const = default;
};

// The first thing that differs, with what was got and expected; empty: nothing does.
std::string Difference(const FeatureSource& got, const FeatureSource& expected);

// What a manifest holds of each row of its shard.
struct ShardRows {
  std::vector<int> labels;  // [rows]; of files: none
  // [networks][rows], if the networks have them. Only of features that are not standardised.
  std::vector<std::vector<float>> residuals;
};

// Path of a shard's array; its manifest has .json at the end instead.
std::string ShardPath(const std::string& folder, const Shard& shard);

// Whether the shard is there already, whole: one that is damaged is to be made again. FAILED_PRECONDITION: there is one
// of another run.
absl::StatusOr<bool> ShardIsDone(const std::string& folder, const Shard& shard, const FeatureSource& source);

// Writes the manifest of an array whose file has this SHA-256: of what was written, not of what is found there.
absl::Status FinishShard(const std::string& folder, const Shard& shard, const FeatureSource& source,
                         const std::string& array_sha256, const ShardRows& rows);

// The manifest of a JSON object: with one key more at its end, the SHA-256 of what is before it.
std::string WithDigest(std::string_view object);

// All shards of a folder.
class FeatureShards {
 public:
  // Reads the manifests. NOT_FOUND: there are none; FAILED_PRECONDITION: shards are missing or do not belong together;
  // DATA_LOSS: a manifest is damaged.
  static absl::StatusOr<FeatureShards> Open(const std::string& folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] const FeatureSource& source() const { return source_; }
  [[nodiscard]] int count() const { return static_cast<int>(shards_.size()); }
  // Of all rows; see ShardRows. The labels are those of classes that there are; of standardised features, none.
  [[nodiscard]] const ShardRows& rows() const { return rows_; }

  // Calls `take` with one block of a shard's rows after the other: the number of the first among all rows, and the
  // values. DATA_LOSS when the file is not the one that was written, which may show only after the last block.
  absl::Status Read(int shard,
                    const std::function<absl::Status(std::size_t first, std::span<const float> rows)>& take) const;

 private:
  FeatureShards() = default;

  std::string folder_;
  FeatureSource source_;
  std::vector<std::string> shards_;  // SHA-256 of each array's file
  ShardRows rows_;
};

// Joins the shards of a folder into one .npy file, the same bytes that a single run writes, and says what of.
// The codes of FeatureShards; INVALID_ARGUMENT: `out` is one of them.
absl::StatusOr<FeatureSource> MergeShards(const std::string& folder, const std::string& out);

}  // namespace ckn
