// Files of data sets: IDX plain and compressed, CIFAR-10, STL-10 with its folds, class names.
#include "server/training/dataset.h"

#include <array>
#include <filesystem>
#include <string>

#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/temp_dir.h"

namespace {

using ckn::testing::CheckErrorMessage;
using ckn::testing::FuzzInput;

struct Kind {
  const char* name;
  ckn::Split split;
  std::array<const char*, 3> files;  // nullptr: none
};

constexpr std::array kKinds = {
    Kind{"mnist", ckn::Split::kTest, {"t10k-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "class_names.txt"}},
    Kind{"mnist", ckn::Split::kTrain, {"train-labels.idx1-ubyte.gz", "train-images.idx3-ubyte.gz", nullptr}},
    Kind{"cifar10", ckn::Split::kTest, {"batches.meta.txt", "test_batch.bin", nullptr}},
    Kind{"stl10", ckn::Split::kTest, {"test_y.bin", "test_X.bin", "class_names.txt"}},
    Kind{"stl10", ckn::Split::kTrain, {"train_y.bin", "train_X.bin", "fold_indices.txt"}},
    Kind{"images", ckn::Split::kTrain, {"a/1.pgm", "b/1.png", "b/2.ppm"}},
};

void CheckDataset(const ckn::Dataset& data) {
  CKN_FUZZ_CHECK(data.size() > 0, "");
  CKN_FUZZ_CHECK(data.channels == 1 || data.channels == 3, data.channels);
  CKN_FUZZ_CHECK(data.height > 0 && data.width > 0, data.height);
  const std::size_t image =
      static_cast<std::size_t>(data.height) * static_cast<std::size_t>(data.width * data.channels);
  CKN_FUZZ_CHECK(data.pixels.size() == data.size() * image, data.pixels.size());
  for (const int label : data.labels) {
    CKN_FUZZ_CHECK(label >= 0 && static_cast<std::size_t>(label) < data.class_names.size(), label);
  }
  for (const auto& fold : data.folds) {
    for (const std::size_t row : fold) CKN_FUZZ_CHECK(row < data.size(), row);
  }
  CKN_FUZZ_CHECK(ckn::DatasetSha256(data).size() == 64, "");
  CKN_FUZZ_CHECK(ckn::MatchClasses(data, data.class_names).ok(), "");
}

}  // namespace

// The kind, then up to three files with their lengths in front.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ckn::testing::TempDir& folder = *new ckn::testing::TempDir;
  FuzzInput input(data, size);
  const Kind& kind = kKinds[input.Byte() % kKinds.size()];
  std::filesystem::create_directories(folder.File("a"));
  std::filesystem::create_directories(folder.File("b"));
  for (const char* const file : kind.files) {
    // An empty one is not there.
    if (const std::string_view bytes = input.Part(); file != nullptr && !bytes.empty()) folder.Write(file, bytes);
  }
  const absl::StatusOr<ckn::Dataset> loaded =
      ckn::LoadDataset(std::string(kind.name) + ":" + folder.path(), kind.split, ckn::ImageSize{4, 5});
  for (const char* const file : kind.files) {
    if (file != nullptr) std::filesystem::remove(folder.File(file));
  }
  if (loaded.ok()) {
    CheckDataset(*loaded);
  } else {
    CheckErrorMessage(loaded.status());
  }
  return 0;
}
