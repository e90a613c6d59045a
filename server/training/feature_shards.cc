#include "server/training/feature_shards.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
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
// Keys stay in the order in which they are written.
using json = nlohmann::ordered_json;

constexpr int kMaxShards = 100'000;  // five digits in the names
// Their product is far from overflow.
constexpr std::uint64_t kMaxImages = std::uint64_t{1} << 36;
constexpr std::uint64_t kMaxFeatures = std::uint64_t{1} << 24;
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 27;
constexpr std::string_view kDigestKey = R"(,"manifest_sha256":")";
constexpr std::string_view kManifestEnd = "\"}\n";
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

const char* KindOf(const FeatureSource& source) { return source.standardized ? "standardised" : "unscaled"; }

// Lists may be long.
std::string Shortened(const json& value) {
  constexpr std::size_t kShown = 200;
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  return text.size() <= kShown ? text : absl::StrCat(text.substr(0, kShown), "...");
}

json SourceJson(const FeatureSource& source) {
  json root = {{"model", source.model},       {"model_sha256", source.model_sha256},
               {"data", source.data},         {"data_sha256", source.data_sha256},
               {"split", source.split},       {"images", source.images},
               {"features", source.features}, {"standardized", source.standardized}};
  if (source.standardized) return root;
  root["classes"] = source.class_names;
  root["named_classes"] = source.has_class_names;
  root["folds"] = source.folds;
  root["decoders"] = source.decoders;
  return root;
}

struct Manifest {
  FeatureSource source;
  Shard shard;
  std::string sha256;  // of the array's file
  ShardRows rows;
};

bool Get(const json& root, const char* key, bool& value) {
  const auto found = root.find(key);
  if (found == root.end() || !found->is_boolean()) return false;
  value = found->get<bool>();
  return true;
}

bool Get(const json& root, const char* key, std::string& value) {
  const auto found = root.find(key);
  if (found == root.end() || !found->is_string()) return false;
  value = found->get<std::string>();
  return true;
}

// A whole number of [0, end).
template <typename Number>
bool ToNumber(const json& from, std::uint64_t end, Number& value) {
  if (!from.is_number_unsigned() || from.get<std::uint64_t>() >= end) return false;
  value = static_cast<Number>(from.get<std::uint64_t>());
  return true;
}

template <typename Number>
bool Get(const json& root, const char* key, std::uint64_t end, Number& value) {
  const auto found = root.find(key);
  return found != root.end() && ToNumber(*found, end, value);
}

// An array, each element by `to`.
template <typename Value, typename To>
bool ToList(const json& from, const To& to, std::vector<Value>& values) {
  if (!from.is_array()) return false;
  values.resize(from.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!to(from[i], values[i])) return false;
  }
  return true;
}

template <typename Value, typename To>
bool GetList(const json& root, const char* key, const To& to, std::vector<Value>& values) {
  const auto found = root.find(key);
  return found != root.end() && ToList(*found, to, values);
}

// What the training needs.
bool GetTraining(const json& root, Manifest& manifest) {
  FeatureSource& source = manifest.source;
  const auto images = static_cast<std::uint64_t>(source.images);
  const auto to_text = [](const json& from, std::string& text) {
    if (from.is_string()) text = from.get<std::string>();
    return from.is_string();
  };
  const auto to_fold = [images](const json& from, std::vector<std::size_t>& fold) {
    const auto to_row = [images](const json& row, std::size_t& value) { return ToNumber(row, images, value); };
    return ToList(from, to_row, fold) && std::ranges::adjacent_find(fold, std::greater_equal<>()) == fold.end();
  };
  if (!GetList(root, "classes", to_text, source.class_names) || !Get(root, "named_classes", source.has_class_names) ||
      !GetList(root, "folds", to_fold, source.folds) || !Get(root, "decoders", source.decoders)) {
    return false;
  }
  const std::size_t rows = RowsOf(manifest.shard, images).count;
  const auto to_label = [&](const json& from, int& label) { return ToNumber(from, source.class_names.size(), label); };
  const auto to_residuals = [rows](const json& from, std::vector<float>& residuals) {
    const auto to_float = [](const json& number, float& value) {
      if (number.is_number()) value = number.get<float>();
      return number.is_number() && std::isfinite(value);
    };
    return ToList(from, to_float, residuals) && residuals.size() == rows;
  };
  return GetList(root, "residuals", to_residuals, manifest.rows.residuals) &&
         (source.class_names.empty() ||
          (GetList(root, "labels", to_label, manifest.rows.labels) && manifest.rows.labels.size() == rows));
}

// Whether a manifest is as it was written. Before it is parsed: then nothing is made of what is damaged.
bool IsWhole(std::string_view text) {
  constexpr std::size_t kDigits = 64;
  const std::size_t end = kDigestKey.size() + kDigits + kManifestEnd.size();
  if (text.size() < end) return false;
  const std::string_view object = text.substr(0, text.size() - end);
  return text == WithDigest(std::string(object) + "}");
}

// Messages do not name the path.
absl::StatusOr<Manifest> ReadManifest(const std::string& path) {
  CKN_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxManifestBytes));
  if (!IsWhole(text)) {
    return absl::DataLossError("damaged, or not a manifest of ckn encode --shard; encode this shard again");
  }
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  Manifest manifest;
  FeatureSource& source = manifest.source;
  const bool whole = root.is_object() && Get(root, "model", source.model) &&
                     Get(root, "model_sha256", source.model_sha256) && Get(root, "data", source.data) &&
                     Get(root, "data_sha256", source.data_sha256) && Get(root, "split", source.split) &&
                     Get(root, "images", kMaxImages, source.images) &&
                     Get(root, "features", kMaxFeatures, source.features) && source.features > 0 &&
                     Get(root, "shards", kMaxShards + 1, manifest.shard.count) &&
                     Get(root, "shard", static_cast<std::uint64_t>(manifest.shard.count), manifest.shard.index) &&
                     Get(root, "sha256", manifest.sha256) && Get(root, "standardized", source.standardized) &&
                     (source.standardized || GetTraining(root, manifest));
  if (!whole)
    return absl::DataLossError("not a manifest of this version's ckn encode --shard; encode this shard again");
  return manifest;
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
                                                      " shards; missing: ", absl::StrJoin(missing, ", "),
                                                      count - manifests.size() > kShown ? ", ..." : ""));
  }
  return manifests;
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

std::string Difference(const FeatureSource& got, const FeatureSource& expected) {
  if (got.standardized != expected.standardized) {
    return absl::StrCat("got ", KindOf(got), " features, expected ", KindOf(expected));
  }
  const json a = SourceJson(got), b = SourceJson(expected);
  for (const auto& [key, value] : b.items()) {
    if (a[key] != value) return absl::StrCat(key, ": got ", Shortened(a[key]), ", expected ", Shortened(value));
  }
  return {};
}

absl::StatusOr<bool> ShardIsDone(const std::string& folder, const Shard& shard, const FeatureSource& source) {
  const std::string path = ManifestPath(folder, shard);
  std::error_code error;
  if (!fs::exists(path, error) && !error) return false;
  const absl::StatusOr<Manifest> manifest = ReadManifest(path);
  if (absl::IsDataLoss(manifest.status())) return false;
  CKN_RETURN_IF_ERROR(Annotate(manifest.status(), path));
  if (manifest->shard.index != shard.index || manifest->shard.count != shard.count) return false;
  if (manifest->source != source) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is of another run; ", Difference(manifest->source, source)));
  }
  const absl::StatusOr<std::string> sha256 = FileSha256(ShardPath(folder, shard));
  // One that is lost or damaged is made again.
  return sha256.ok() && *sha256 == manifest->sha256;
}

absl::Status FinishShard(const std::string& folder, const Shard& shard, const FeatureSource& source,
                         const std::string& array_sha256, const ShardRows& rows) {
  const RowRange range = RowsOf(shard, static_cast<std::size_t>(source.images));
  json manifest = SourceJson(source);
  manifest["shard"] = shard.index;
  manifest["shards"] = shard.count;
  manifest["first"] = range.first;
  manifest["rows"] = range.count;
  manifest["sha256"] = array_sha256;
  // Those of a data set are there also when the shard has no rows.
  if (!source.class_names.empty() || !rows.labels.empty()) manifest["labels"] = rows.labels;
  // JSON's numbers are double precision, written so that they are read as they were.
  if (!source.standardized) manifest["residuals"] = rows.residuals;
  // File names may be of any bytes; what is no UTF-8 is replaced.
  const std::string text = WithDigest(manifest.dump(-1, ' ', false, json::error_handler_t::replace));
  if (text.size() > kMaxManifestBytes) {
    return absl::InvalidArgumentError(absl::StrCat(ManifestPath(folder, shard), ": takes ", text.size(),
                                                   " bytes, the limit is ", kMaxManifestBytes,
                                                   "; encode in more shards"));
  }
  return WriteFileAtomically(ManifestPath(folder, shard), text);
}

std::string WithDigest(std::string_view object) {
  const std::string_view open = object.substr(0, object.rfind('}'));
  std::string text(open);
  text.append(kDigestKey).append(Sha256Hex(open)).append(kManifestEnd);
  return text;
}

absl::StatusOr<FeatureShards> FeatureShards::Open(const std::string& folder) {
  CKN_ASSIGN_OR_RETURN(std::vector<Manifest> manifests, ReadManifests(folder));
  FeatureShards shards;
  shards.folder_ = folder;
  shards.source_ = manifests.front().source;
  ShardRows& all = shards.rows_;
  all.residuals.resize(manifests.front().rows.residuals.size());
  for (Manifest& manifest : manifests) {
    const ShardRows& rows = manifest.rows;
    if (rows.residuals.size() != all.residuals.size()) {
      return absl::DataLossError(absl::StrCat(ManifestPath(folder, manifest.shard), ": residuals: got those of ",
                                              rows.residuals.size(), " networks, expected ", all.residuals.size()));
    }
    shards.shards_.push_back(std::move(manifest.sha256));
    all.labels.insert(all.labels.end(), rows.labels.begin(), rows.labels.end());
    for (std::size_t k = 0; k < all.residuals.size(); ++k) {
      all.residuals[k].insert(all.residuals[k].end(), rows.residuals[k].begin(), rows.residuals[k].end());
    }
  }
  return shards;
}

absl::Status FeatureShards::Read(
    int shard, const std::function<absl::Status(std::size_t first, std::span<const float> rows)>& take) const {
  const Shard part{.index = shard, .count = count()};
  const std::string path = ShardPath(folder_, part);
  const auto read = [&]() -> absl::Status {
    CKN_ASSIGN_OR_RETURN(RegularFile file, RegularFile::Open(path));
    Sha256 sha256;
    const auto read_bytes = [&](std::span<std::byte> out) -> absl::StatusOr<std::size_t> {
      CKN_ASSIGN_OR_RETURN(const std::size_t got, file.Read(out));
      sha256.Update({reinterpret_cast<const char*>(out.data()), got});
      return got;
    };
    // The header tells its length; what else it says is part of the SHA-256.
    std::array<std::byte, 10> begin = {};
    CKN_ASSIGN_OR_RETURN(const std::size_t got, read_bytes(begin));
    std::vector<std::byte> header(std::to_integer<std::size_t>(begin[8]) +
                                  256 * std::to_integer<std::size_t>(begin[9]));
    CKN_ASSIGN_OR_RETURN(const std::size_t rest, read_bytes(header));
    const RowRange range = RowsOf(part, static_cast<std::size_t>(source_.images));
    const auto features = static_cast<std::size_t>(source_.features);
    if (const std::uint64_t expected = got + rest + 4 * range.count * features;
        got != begin.size() || rest != header.size() || file.size() != expected) {
      return absl::DataLossError(
          absl::StrCat("got ", file.size(), " bytes, expected ", expected, "; encode this shard again"));
    }
    const std::size_t block_rows = std::min(range.count, std::max(kBlock / (4 * features), std::size_t{1}));
    std::vector<float> block(block_rows * features);
    for (std::size_t row = 0; row < range.count; row += block_rows) {
      const std::span<float> rows = std::span(block).first(std::min(block_rows, range.count - row) * features);
      CKN_ASSIGN_OR_RETURN(const std::size_t bytes, read_bytes(std::as_writable_bytes(rows)));
      if (bytes != rows.size_bytes()) return absl::DataLossError("shorter than it was");
      CKN_RETURN_IF_ERROR(take(range.first + row, rows));
    }
    if (const std::string digest = sha256.HexDigest(); digest != shards_[static_cast<std::size_t>(shard)]) {
      return absl::DataLossError(absl::StrCat("got SHA-256 ", digest, ", expected ",
                                              shards_[static_cast<std::size_t>(shard)], "; encode this shard again"));
    }
    return absl::OkStatus();
  };
  return Annotate(read(), path);
}

absl::StatusOr<FeatureSource> MergeShards(const std::string& folder, const std::string& out) {
  CKN_ASSIGN_OR_RETURN(const FeatureShards shards, FeatureShards::Open(folder));
  const FeatureSource& source = shards.source();
  for (int shard = 0; shard < shards.count(); ++shard) {
    const Shard part{.index = shard, .count = shards.count()};
    std::error_code error;
    for (const std::string& path : {ShardPath(folder, part), ManifestPath(folder, part)}) {
      if (!fs::equivalent(out, path, error)) continue;
      return absl::InvalidArgumentError(absl::StrCat(out, ": is one of the shards"));
    }
  }
  const std::array<std::int64_t, 2> shape = {source.images, source.features};
  CKN_ASSIGN_OR_RETURN(NpyWriter writer, NpyWriter::Create(out, shape));
  for (int shard = 0; shard < shards.count(); ++shard) {
    CKN_RETURN_IF_ERROR(
        shards.Read(shard, [&](std::size_t, std::span<const float> rows) { return writer.Append(rows); }));
  }
  CKN_RETURN_IF_ERROR(writer.Close());
  return source;
}

}  // namespace ckn
