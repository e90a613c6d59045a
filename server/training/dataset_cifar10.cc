#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/training/dataset_readers.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;
constexpr std::size_t kPlane = std::size_t{kSide} * kSide;
constexpr std::size_t kRecord = 1 + 3 * kPlane;  // a label, then the red, green and blue planes, row by row
constexpr std::array<const char*, 10> kClasses = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                  "dog",      "frog",       "horse", "ship", "truck"};

std::vector<fs::path> Files(const fs::path& folder, Split split) {
  std::error_code error;
  const fs::path inner = folder / "cifar-10-batches-bin";
  const fs::path& base = fs::is_directory(inner, error) ? inner : folder;
  if (split == Split::kTest) return {base / "test_batch.bin"};
  std::vector<fs::path> files;
  for (int i = 1; i <= 5; ++i) files.push_back(base / absl::StrCat("data_batch_", i, ".bin"));
  return files;
}

}  // namespace

bool HasCifar10(const fs::path& folder, Split split) { return std::ranges::all_of(Files(folder, split), IsFile); }

absl::StatusOr<Dataset> LoadCifar10(const fs::path& folder, Split split) {
  Dataset data;
  data.height = kSide;
  data.width = kSide;
  data.channels = 3;
  const std::vector<fs::path> files = Files(folder, split);
  for (const fs::path& path : files) {
    CKN_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> bytes, ReadFileBytes(path, kRecord));
    const std::size_t records = bytes.size() / kRecord;
    for (std::size_t i = 0; i < records; ++i) {
      const std::uint8_t* const record = bytes.data() + i * kRecord;
      if (record[0] >= kClasses.size()) {
        return absl::InvalidArgumentError(absl::StrCat(path.native(), ": got label ", int{record[0]}, " at byte ",
                                                       i * kRecord, ", expected 0 to ", kClasses.size() - 1));
      }
      data.labels.push_back(record[0]);
      const std::size_t start = data.pixels.size();
      data.pixels.resize(start + 3 * kPlane);
      for (std::size_t p = 0; p < kPlane; ++p) {
        for (std::size_t c = 0; c < 3; ++c) data.pixels[start + 3 * p + c] = record[1 + c * kPlane + p];
      }
    }
  }
  CKN_ASSIGN_OR_RETURN(data.class_names, ReadClassNamesOr(files.front().parent_path() / "batches.meta.txt", kClasses));
  return data;
}

}  // namespace ckn
