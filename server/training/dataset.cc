#include "server/training/dataset.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <fstream>
#include <numeric>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/quote.h"
#include "server/base/regular_file.h"
#include "server/base/sha256.h"
#include "server/base/status.h"
#include "server/base/utf8.h"
#include "server/training/dataset_readers.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;

struct Kind {
  std::string_view name;
  absl::StatusOr<Dataset> (*load)(const fs::path& folder, Split split, std::optional<ImageSize> stretch);
  bool (*has)(const fs::path& folder, Split split);
};

// The files of these have one size by their format.
template <absl::StatusOr<Dataset> (*kLoad)(const fs::path& folder, Split split)>
absl::StatusOr<Dataset> OneSize(const fs::path& folder, Split split, std::optional<ImageSize> /*stretch*/) {
  return kLoad(folder, split);
}

constexpr std::array<Kind, 4> kKinds = {{{"mnist", OneSize<LoadIdx>, HasIdx},
                                         {"cifar10", OneSize<LoadCifar10>, HasCifar10},
                                         {"stl10", OneSize<LoadStl10>, HasStl10},
                                         {"images", LoadImageFolder, HasImageFolder}}};

struct Name {
  const Kind* kind;
  fs::path folder;
};

absl::StatusOr<Name> ParseName(const std::string& name) {
  const std::size_t colon = name.find(':');
  if (colon != std::string::npos && colon + 1 < name.size()) {
    for (const Kind& kind : kKinds) {
      if (name.compare(0, colon, kind.name) == 0) return Name{&kind, name.substr(colon + 1)};
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("data set: got \"", absl::Utf8SafeCEscape(name),
                                                 "\", expected KIND:FOLDER with KIND mnist, cifar10, stl10 or images"));
}

// The folder's own name also for "." and for a trailing slash.
std::string Title(const Name& name) {
  std::error_code error;
  fs::path folder = fs::weakly_canonical(fs::absolute(name.folder, error), error);
  if (error) folder = name.folder;
  if (!folder.has_filename()) folder = folder.parent_path();
  return absl::StrCat(absl::string_view(name.kind->name.data(), name.kind->name.size()), ":",
                      Printable(folder.filename().native()));
}

}  // namespace

std::string_view SplitName(Split split) { return split == Split::kTrain ? "train" : "test"; }

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

absl::StatusOr<std::vector<std::uint8_t>> ReadFileBytes(const fs::path& path, std::size_t unit) {
  const auto read = [&]() -> absl::StatusOr<std::vector<std::uint8_t>> {
    CKN_ASSIGN_OR_RETURN(RegularFile file, RegularFile::Open(path));
    if (file.size() == 0 || file.size() % unit != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("got ", file.size(), " bytes, expected a positive multiple of ", unit));
    }
    std::vector<std::uint8_t> bytes(file.size());
    CKN_ASSIGN_OR_RETURN(const std::size_t got, file.Read(std::as_writable_bytes(std::span(bytes))));
    if (got != bytes.size()) {
      return absl::InvalidArgumentError(absl::StrCat("got ", got, " bytes, expected ", bytes.size()));
    }
    return bytes;
  };
  absl::StatusOr<std::vector<std::uint8_t>> bytes = read();
  CKN_RETURN_IF_ERROR(Annotate(bytes.status(), path.native()));
  return bytes;
}

absl::StatusOr<std::vector<std::string>> ReadClassNames(const fs::path& path, std::size_t min_count) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path.native(), ": cannot open"));
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.pop_back();
    names.push_back(line);
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.size() < min_count) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.native(), ": got ", names.size(), " class names, expected ", min_count));
  }
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || !IsPrintableUtf8(names[i])) {
      return absl::InvalidArgumentError(absl::StrCat(path.native(), ":", i + 1, ": got \"", absl::CHexEscape(names[i]),
                                                     "\", expected a printable class name"));
    }
    if (!seen.insert(names[i]).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.native(), ":", i + 1, ": class name \"", names[i], "\" is there already"));
    }
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> ReadClassNamesOr(const fs::path& path, std::span<const char* const> defaults) {
  if (!IsFile(path)) return std::vector<std::string>(defaults.begin(), defaults.end());
  CKN_ASSIGN_OR_RETURN(std::vector<std::string> names, ReadClassNames(path, defaults.size()));
  if (names.size() != defaults.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.native(), ": got ", names.size(), " class names, expected ", defaults.size()));
  }
  return names;
}

ImageU8 Dataset::Image(std::size_t index) const {
  assert(index < size());
  ImageU8 image;
  image.height = height;
  image.width = width;
  image.channels = channels;
  const std::size_t bytes = static_cast<std::size_t>(height) * width * channels;
  const std::uint8_t* const first = pixels.data() + index * bytes;
  image.pixels.assign(first, first + bytes);
  return image;
}

absl::Status ValidateDatasetName(const std::string& name) { return ParseName(name).status(); }

absl::StatusOr<Dataset> LoadDataset(const std::string& name, Split split, std::optional<ImageSize> stretch) {
  CKN_ASSIGN_OR_RETURN(const Name parsed, ParseName(name));
  std::error_code error;
  if (!fs::is_directory(parsed.folder, error)) {
    return absl::NotFoundError(absl::StrCat(parsed.folder.native(), ": no such folder"));
  }
  CKN_ASSIGN_OR_RETURN(Dataset data, parsed.kind->load(parsed.folder, split, stretch));
  data.title = Title(parsed);
  return data;
}

bool HasSplit(const std::string& name, Split split) {
  const absl::StatusOr<Name> parsed = ParseName(name);
  return parsed.ok() && parsed->kind->has(parsed->folder, split);
}

absl::Status ReadClassNamesFrom(const std::string& path, DatasetLabels& data) {
  CKN_ASSIGN_OR_RETURN(data.class_names, ReadClassNames(path, data.class_names.size()));
  data.has_class_names = true;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> MatchClasses(const DatasetLabels& data,
                                              const std::vector<std::string>& model_classes) {
  std::vector<int> indices;
  if (!data.has_class_names) {
    if (data.class_names.size() > model_classes.size()) {
      return absl::InvalidArgumentError(absl::StrCat("got ", data.class_names.size(), " classes, expected at most the ",
                                                     model_classes.size(), " of the model"));
    }
    indices.resize(data.class_names.size());
    std::iota(indices.begin(), indices.end(), 0);
    return indices;
  }
  for (const std::string& name : data.class_names) {
    const auto found = std::find(model_classes.begin(), model_classes.end(), name);
    if (found == model_classes.end()) {
      constexpr std::size_t kShown = 20;
      const std::size_t shown = std::min(kShown, model_classes.size());
      return absl::InvalidArgumentError(absl::StrCat(
          "the data's class \"", name, "\" is not a class of the model, expected one of: ",
          absl::StrJoin(model_classes.begin(), model_classes.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
          shown < model_classes.size() ? ", ..." : ""));
    }
    indices.push_back(static_cast<int>(found - model_classes.begin()));
  }
  return indices;
}

std::string DatasetSha256(const Dataset& data) {
  // Little-endian: count (64 bits), height, width, channels and one number a label (32 bits), then the pixels.
  Sha256 hash;
  std::string head;
  const auto append = [&head](std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) head.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  };
  append(data.size(), 8);
  for (const int side : {data.height, data.width, data.channels}) append(static_cast<std::uint32_t>(side), 4);
  for (const int label : data.labels) append(static_cast<std::uint32_t>(label), 4);
  hash.Update(head);
  hash.Update(data.pixels);
  return hash.HexDigest();
}

}  // namespace ckn
