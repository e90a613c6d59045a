#include <array>

#include "absl/strings/str_cat.h"
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
  return data;
}

}  // namespace ckn
