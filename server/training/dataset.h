#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace ckn {

// A labelled set of images without their pixels.
struct DatasetLabels {
  std::string title;        // KIND and the folder's last component, for people
  std::vector<int> labels;  // [size()], indices into class_names
  std::vector<std::string> class_names;
  // False when the files hold no names: then class_names are the label numbers, and classes are told by their numbers.
  bool has_class_names = true;
  // Subsets of the training images that the data set predefines (STL-10), each ascending; mostly none.
  std::vector<std::vector<std::size_t>> folds;

  [[nodiscard]] std::size_t size() const { return labels.size(); }
};

// The images with it, all of one size.
struct Dataset : DatasetLabels {
  int height = 0;
  int width = 0;
  int channels = 0;                     // 1 or 3 (R, G, B)
  std::vector<std::uint8_t> pixels;     // [size()][height][width][channels]
  std::vector<std::string> item_names;  // file names of an image folder; empty for the other kinds

  [[nodiscard]] ImageU8 Image(std::size_t index) const;
};

enum class Split { kTrain, kTest };

// "train" or "test".
std::string_view SplitName(Split split);

struct ImageSize {
  int height = 0;
  int width = 0;
};

// INVALID_ARGUMENT unless it reads KIND:FOLDER with a known kind.
absl::Status ValidateDatasetName(const std::string& name);

// Loads one split of a data set named KIND:FOLDER.
//   mnist:    {train,t10k}-{images-idx3,labels-idx1}-ubyte, also with a dot before "idx", plain or .gz (any IDX set
//             with these names); class names from class_names.txt (one a line) if it is there, else "0", "1", ...
//             up to the largest label of the split
//   cifar10:  data_batch_{1..5}.bin and test_batch.bin, here or in cifar-10-batches-bin/; class names from
//             batches.meta.txt if it is there
//   stl10:    {train,test}_{X,y}.bin, here or in stl10_binary/; class names from class_names.txt and the folds of the
//             training split from fold_indices.txt, if they are there
//   images:   FOLDER/train/CLASS/*, FOLDER/test/CLASS/*; without these two, FOLDER/CLASS/* is the training split and
//             there is no test split. Classes and files in the order of their names; hidden files are skipped; gray and
//             colour files mixed make the set colour
// `stretch` is the size of a model that stretches its input: files of an image folder are brought to it as they are
// read, by the function that Preprocess uses. Without it all must have one size. INVALID_ARGUMENT: malformed name or
// file; NOT_FOUND: a file or split is missing. Messages name the file, what was got and what was expected.
absl::StatusOr<Dataset> LoadDataset(const std::string& name, Split split, std::optional<ImageSize> stretch = {});
// Whether the split's files are there at all (an images folder without test/ has no test split).
bool HasSplit(const std::string& name, Split split);

// Replaces the class names by the lines of a text file, for labels 0, 1, ... INVALID_ARGUMENT: too few, empty, repeated
// or unprintable names; NOT_FOUND.
absl::Status ReadClassNamesFrom(const std::string& path, DatasetLabels& data);

// For each class of the data its index in the model: by name, or by number when the data have no names.
// INVALID_ARGUMENT when the model does not have it.
absl::StatusOr<std::vector<int>> MatchClasses(const DatasetLabels& data, const std::vector<std::string>& model_classes);

// Lower-case hex SHA-256 over the content as loaded: size, labels, pixels; independent of compression and folder.
std::string DatasetSha256(const Dataset& data);

}  // namespace ckn
