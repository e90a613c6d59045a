#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/base/status.h"
#include "server/training/dataset_readers.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 96;
constexpr std::size_t kPlane = std::size_t{kSide} * kSide;
constexpr std::size_t kImage = 3 * kPlane;  // red, green and blue planes, column by column
constexpr std::array<const char*, 10> kClasses = {"airplane", "bird",  "car",    "cat",  "deer",
                                                  "dog",      "horse", "monkey", "ship", "truck"};

fs::path File(const fs::path& folder, const std::string& name) {
  std::error_code error;
  const fs::path inner = folder / "stl10_binary";
  return (fs::is_directory(inner, error) ? inner : folder) / name;
}

fs::path PixelsPath(const fs::path& folder, Split split) {
  return File(folder, split == Split::kTrain ? "train_X.bin" : "test_X.bin");
}
fs::path LabelsPath(const fs::path& folder, Split split) {
  return File(folder, split == Split::kTrain ? "train_y.bin" : "test_y.bin");
}

// One fold a line: indices of training images, counted from 0.
absl::StatusOr<std::vector<std::vector<std::size_t>>> ReadFolds(const fs::path& path, std::size_t images) {
  constexpr std::size_t kMaxFolds = 1000;
  CKN_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> bytes, ReadFileBytes(path, 1));
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::vector<std::size_t>> folds;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    const std::string where = absl::StrCat(path.native(), ": fold ", folds.size());
    std::vector<std::size_t> rows;
    for (const absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
      std::uint64_t row = 0;
      if (!absl::SimpleAtoi(word, &row) || row >= images) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": got \"", absl::Utf8SafeCEscape(word.substr(0, 20)),
                                                       "\", expected an image index of 0 to ", images - 1));
      }
      rows.push_back(row);
    }
    std::sort(rows.begin(), rows.end());
    if (const auto twice = std::adjacent_find(rows.begin(), rows.end()); twice != rows.end()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": got image ", *twice, " twice"));
    }
    folds.push_back(std::move(rows));
    if (folds.size() > kMaxFolds) {
      return absl::InvalidArgumentError(absl::StrCat(path.native(), ": expected at most ", kMaxFolds, " folds"));
    }
  }
  return folds;
}

}  // namespace

bool HasStl10(const fs::path& folder, Split split) {
  return IsFile(PixelsPath(folder, split)) && IsFile(LabelsPath(folder, split));
}

absl::StatusOr<Dataset> LoadStl10(const fs::path& folder, Split split) {
  Dataset data;
  data.height = kSide;
  data.width = kSide;
  data.channels = 3;
  const fs::path labels_path = LabelsPath(folder, split);
  const fs::path pixels_path = PixelsPath(folder, split);
  CKN_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> labels, ReadFileBytes(labels_path, 1));
  CKN_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> bytes, ReadFileBytes(pixels_path, kImage));
  const std::size_t images = bytes.size() / kImage;
  if (images != labels.size()) {
    return absl::InvalidArgumentError(absl::StrCat(pixels_path.native(), ": got ", images, " images, expected ",
                                                   labels.size(), " as in ", labels_path.filename().native()));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 1 || labels[i] > kClasses.size()) {
      return absl::InvalidArgumentError(absl::StrCat(labels_path.native(), ": got label ", int{labels[i]}, " at byte ",
                                                     i, ", expected 1 to ", kClasses.size()));
    }
    data.labels.push_back(labels[i] - 1);
  }
  data.pixels.resize(bytes.size());
  for (std::size_t i = 0; i < images; ++i) {
    const std::uint8_t* const in = bytes.data() + i * kImage;
    std::uint8_t* const out = data.pixels.data() + i * kImage;
    for (std::size_t y = 0; y < kSide; ++y) {
      for (std::size_t x = 0; x < kSide; ++x) {
        for (std::size_t c = 0; c < 3; ++c) out[(y * kSide + x) * 3 + c] = in[c * kPlane + x * kSide + y];
      }
    }
  }
  CKN_ASSIGN_OR_RETURN(data.class_names, ReadClassNamesOr(File(folder, "class_names.txt"), kClasses));
  if (const fs::path folds = File(folder, "fold_indices.txt"); split == Split::kTrain && IsFile(folds)) {
    CKN_ASSIGN_OR_RETURN(data.folds, ReadFolds(folds, images));
  }
  return data;
}

}  // namespace ckn
