// Manifests of feature shards, as ckn merge and ckn refit --features read them.
#include <cstdint>
#include <filesystem>
#include <string>

#include "server/training/feature_shards.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/temp_dir.h"

namespace {

using ckn::testing::CheckErrorMessage;
using ckn::testing::FuzzInput;

void CheckShards(const ckn::FeatureShards& shards) {
  const ckn::FeatureSource& source = shards.source();
  const auto images = static_cast<std::size_t>(source.images);
  CKN_FUZZ_CHECK(source.images >= 0 && source.features > 0, source.images);
  CKN_FUZZ_CHECK(shards.count() > 0, shards.count());
  const ckn::ShardRows& rows = shards.rows();
  CKN_FUZZ_CHECK(rows.labels.empty() || rows.labels.size() == images, rows.labels.size());
  for (const int label : rows.labels) {
    CKN_FUZZ_CHECK(label >= 0 && static_cast<std::size_t>(label) < source.class_names.size(), label);
  }
  for (const auto& residuals : rows.residuals) CKN_FUZZ_CHECK(residuals.size() == images, residuals.size());
  for (const auto& fold : source.folds) {
    for (const std::size_t row : fold) CKN_FUZZ_CHECK(row < images, row);
  }
  // The arrays are not there.
  const auto take = [](std::size_t, std::span<const float>) { return absl::OkStatus(); };
  for (int i = 0; i < shards.count(); ++i) CheckErrorMessage(shards.Read(i, take));
}

}  // namespace

// The manifests of the first and the second of two shards, without their digests, which would keep nearly every input
// from being looked at; an empty one is not there.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ckn::testing::TempDir& folder = *new ckn::testing::TempDir;
  FuzzInput input(data, size);
  constexpr int kShards = 2;
  for (int i = 0; i < kShards; ++i) {
    std::filesystem::path path = ckn::ShardPath(folder.path(), {.index = i, .count = kShards});
    path.replace_extension(".json");
    std::filesystem::remove(path);
    if (const std::string_view manifest = input.Part(); !manifest.empty())
      folder.Write(path.filename().string(), ckn::WithDigest(manifest));
  }
  const absl::StatusOr<ckn::FeatureShards> shards = ckn::FeatureShards::Open(folder.path());
  if (shards.ok()) {
    CheckShards(*shards);
    const absl::StatusOr<bool> done = ckn::ShardIsDone(folder.path(), {.index = 0, .count = kShards}, shards->source());
    CKN_FUZZ_CHECK(done.ok() && !*done, done.status().ToString());
  } else {
    CheckErrorMessage(shards.status());
  }
  return 0;
}
