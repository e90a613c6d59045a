#include "server/commands/feature_shards.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/atomic_file.h"
#include "server/base/npy.h"
#include "server/base/quote.h"
#include "server/base/regular_file.h"
#include "server/base/sha256.h"
#include "server/base/status.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kMaxShards = 100'000;  // five digits in the names
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30;
constexpr std::size_t kBlock = std::size_t{1} << 20;

std::string ManifestPath(const std::string& folder, const Shard& shard) {
  return fs::path(ShardPath(folder, shard)).replace_extension(".json");
}

// Feeds the rest of a file to `take`, block by block.
template <typename Take>
absl::Status ReadBlocks(RegularFile& file, const Take& take) {
  std::vector<std::byte> block(kBlock);
  for (;;) {
    CKN_ASSIGN_OR_RETURN(const std::size_t got, file.Read(block));
    if (got == 0) return absl::OkStatus();
    CKN_RETURN_IF_ERROR(take(std::span(block).first(got)));
  }
}

absl::StatusOr<std::string> FileSha256(const std::string& path) {
  CKN_ASSIGN_OR_RETURN(RegularFile file, RegularFile::Open(path));
  Sha256 sha256;
  CKN_RETURN_IF_ERROR(ReadBlocks(file, [&](std::span<const std::byte> bytes) {
    sha256.Update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return absl::OkStatus();
  }));
  return sha256.HexDigest();
}

json SourceJson(const FeatureSource& source) {
  return {{"model", source.model},      {"model_sha256", source.model_sha256},
          {"data", source.data},        {"data_sha256", source.data_sha256},
          {"split", source.split},      {"images", source.images},
          {"features", source.features}};
}

struct Manifest {
  FeatureSource source;
  Shard shard;
  std::string sha256;  // of the array's file
};

// Messages do not name the path.
absl::StatusOr<Manifest> ReadManifest(const std::string& path) {
  CKN_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxManifestBytes));
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  Manifest manifest;
  FeatureSource& source = manifest.source;
  const auto get = [&root](const char* key, auto& value) {
    const auto found = root.find(key);
    if (found == root.end()) return false;
    using Value = std::remove_reference_t<decltype(value)>;
    if (std::is_same_v<Value, std::string> ? !found->is_string() : !found->is_number_integer()) return false;
    value = found->template get<Value>();
    return true;
  };
  const bool whole = root.is_object() && get("model", source.model) && get("model_sha256", source.model_sha256) &&
                     get("data", source.data) && get("data_sha256", source.data_sha256) && get("split", source.split) &&
                     get("images", source.images) && get("features", source.features) &&
                     get("shard", manifest.shard.index) && get("shards", manifest.shard.count) &&
                     get("sha256", manifest.sha256) && source.images >= 0 && source.features > 0;
  if (!whole) return absl::DataLossError("not a manifest of ckn encode --shard");
  return manifest;
}

// What differs, in one line.
std::string Difference(const FeatureSource& got, const FeatureSource& expected) {
  const json a = SourceJson(got), b = SourceJson(expected);
  for (const auto& [key, value] : b.items()) {
    if (a[key] != value) return absl::StrCat(key, ": got ", a[key].dump(), ", expected ", value.dump());
  }
  return {};
}

// The manifests of a folder that belong together: one a shard, in order.
absl::StatusOr<std::vector<Manifest>> ReadManifests(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (name.rfind("features-", 0) == 0 && it->path().extension() == ".json") paths.push_back(it->path());
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  if (paths.empty()) return absl::NotFoundError(absl::StrCat(folder, ": no shards of ckn encode --shard"));
  std::sort(paths.begin(), paths.end());
  std::vector<Manifest> manifests;
  for (const std::string& path : paths) {
    absl::StatusOr<Manifest> manifest = ReadManifest(path);
    CKN_RETURN_IF_ERROR(Annotate(manifest.status(), path));
    const Manifest& first = manifests.empty() ? *manifest : manifests.front();
    if (manifest->shard.count != first.shard.count || path != ManifestPath(folder, manifest->shard)) {
      return absl::FailedPreconditionError(absl::StrCat(path, ": is shard ", manifest->shard.index, " of ",
                                                        manifest->shard.count, ", beside one of ", first.shard.count));
    }
    if (manifest->source != first.source) {
      return absl::FailedPreconditionError(absl::StrCat(path, ": ", Difference(manifest->source, first.source)));
    }
    manifests.push_back(*std::move(manifest));
  }
  const int count = manifests.front().shard.count;
  if (std::cmp_not_equal(manifests.size(), count)) {
    std::vector<int> missing;
    constexpr std::size_t kShown = 10;
    std::size_t next = 0;
    for (int index = 0; index < count && missing.size() < kShown; ++index) {
      if (next < manifests.size() && manifests[next].shard.index == index) {
        ++next;
      } else {
        missing.push_back(index);
      }
    }
    return absl::FailedPreconditionError(absl::StrCat(folder, ": got ", manifests.size(), " of ", count,
                                                      " shards; missing: ", absl::StrJoin(missing, ", ")));
  }
  return manifests;
}

// Adds the values of a shard's array to `writer`.
absl::Status Append(const std::string& path, const Manifest& manifest, NpyWriter& writer) {
  CKN_ASSIGN_OR_RETURN(RegularFile file, RegularFile::Open(path));
  // The header's length is part of the file; what it says has been checked by its SHA-256.
  std::array<std::byte, 10> begin = {};
  CKN_ASSIGN_OR_RETURN(const std::size_t got, file.Read(begin));
  std::vector<std::byte> header(std::to_integer<std::size_t>(begin[8]) + 256 * std::to_integer<std::size_t>(begin[9]));
  CKN_ASSIGN_OR_RETURN(const std::size_t rest, file.Read(header));
  const std::uint64_t values = std::uint64_t{4} *
                               RowsOf(manifest.shard, static_cast<std::size_t>(manifest.source.images)).count *
                               static_cast<std::uint64_t>(manifest.source.features);
  if (got != begin.size() || rest != header.size() || file.size() != got + rest + values) {
    return absl::DataLossError(absl::StrCat("got ", file.size(), " bytes, expected ", got + rest + values));
  }
  std::vector<float> block(kBlock);
  for (std::uint64_t left = values; left > 0;) {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left, 4 * kBlock));
    CKN_ASSIGN_OR_RETURN(const std::size_t read, file.Read(std::as_writable_bytes(std::span(block)).first(bytes)));
    if (read != bytes) return absl::DataLossError("shorter than it was");
    CKN_RETURN_IF_ERROR(writer.Append(std::span(block).first(bytes / 4)));
    left -= bytes;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Shard> ParseShard(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto number = [](std::string_view digits, int* value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  Shard shard;
  const bool good = slash != std::string::npos && number(std::string_view(text).substr(0, slash), &shard.index) &&
                    number(std::string_view(text).substr(slash + 1), &shard.count) && shard.index >= 0 &&
                    shard.index < shard.count && shard.count <= kMaxShards;
  if (good) return shard;
  return absl::InvalidArgumentError(
      absl::StrCat("got ", Quote(text), ", expected I/N with 0 <= I < N <= ", kMaxShards));
}

RowRange RowsOf(const Shard& shard, std::size_t rows) {
  const auto index = static_cast<std::size_t>(shard.index), count = static_cast<std::size_t>(shard.count);
  // The first ones have one row more when it does not divide.
  const std::size_t each = rows / count, more = rows % count;
  return {.first = index * each + std::min(index, more), .count = each + (index < more ? 1 : 0)};
}

std::string ShardPath(const std::string& folder, const Shard& shard) {
  return fs::path(folder) / absl::StrFormat("features-%05d-of-%05d.npy", shard.index, shard.count);
}

absl::StatusOr<bool> ShardIsDone(const std::string& folder, const Shard& shard, const FeatureSource& source) {
  const std::string path = ManifestPath(folder, shard);
  std::error_code error;
  if (!fs::exists(path, error) && !error) return false;
  const absl::StatusOr<Manifest> manifest = ReadManifest(path);
  CKN_RETURN_IF_ERROR(Annotate(manifest.status(), path));
  if (manifest->source != source) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is of another run; ", Difference(manifest->source, source)));
  }
  const absl::StatusOr<std::string> sha256 = FileSha256(ShardPath(folder, shard));
  // One that is lost or damaged is made again.
  return sha256.ok() && *sha256 == manifest->sha256;
}

absl::Status FinishShard(const std::string& folder, const Shard& shard, const FeatureSource& source,
                         const std::vector<int>& labels) {
  const std::string array = ShardPath(folder, shard);
  const absl::StatusOr<std::string> sha256 = FileSha256(array);
  CKN_RETURN_IF_ERROR(Annotate(sha256.status(), array));
  const RowRange rows = RowsOf(shard, static_cast<std::size_t>(source.images));
  json manifest = SourceJson(source);
  manifest["shard"] = shard.index;
  manifest["shards"] = shard.count;
  manifest["first"] = rows.first;
  manifest["rows"] = rows.count;
  manifest["sha256"] = *sha256;
  if (!labels.empty()) manifest["labels"] = labels;
  // File names may be of any bytes; what is no UTF-8 is replaced.
  const std::string text = manifest.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  return WriteFileAtomically(ManifestPath(folder, shard), text);
}

absl::StatusOr<FeatureSource> MergeShards(const std::string& folder, const std::string& out) {
  CKN_ASSIGN_OR_RETURN(const std::vector<Manifest> manifests, ReadManifests(folder));
  const FeatureSource& source = manifests.front().source;
  const std::array<std::int64_t, 2> shape = {source.images, source.features};
  CKN_ASSIGN_OR_RETURN(NpyWriter writer, NpyWriter::Create(out, shape));
  for (const Manifest& manifest : manifests) {
    const std::string path = ShardPath(folder, manifest.shard);
    const absl::StatusOr<std::string> sha256 = FileSha256(path);
    CKN_RETURN_IF_ERROR(Annotate(sha256.status(), path));
    if (*sha256 != manifest.sha256) {
      return absl::DataLossError(
          absl::StrCat(path, ": got SHA-256 ", *sha256, ", expected ", manifest.sha256, "; encode this shard again"));
    }
    CKN_RETURN_IF_ERROR(Annotate(Append(path, manifest, writer), path));
  }
  CKN_RETURN_IF_ERROR(writer.Close());
  return source;
}

}  // namespace ckn
