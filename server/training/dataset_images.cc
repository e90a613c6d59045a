#include <algorithm>
#include <optional>
#include <span>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/base/utf8.h"
#include "server/image/decode.h"
#include "server/image/preprocess.h"
#include "server/training/dataset_readers.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// FOLDER/train and FOLDER/test when either is there; else FOLDER itself is the training split. Empty: no such split.
fs::path SplitFolder(const fs::path& folder, Split split) {
  const bool has_splits = IsFolder(folder / "train") || IsFolder(folder / "test");
  if (!has_splits) return split == Split::kTrain && IsFolder(folder) ? folder : fs::path();
  fs::path path = folder / fs::path(SplitName(split));
  return IsFolder(path) ? path : fs::path();
}

// Entries sorted by name; hidden ones (.DS_Store and the like) are left out.
absl::StatusOr<std::vector<fs::path>> SortedEntries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().native().front() != '.') entries.push_back(it->path());
  }
  if (error) return absl::InvalidArgumentError(absl::StrCat(folder.native(), ": ", error.message()));
  std::sort(entries.begin(), entries.end());
  return entries;
}

void RepeatGray(std::vector<std::uint8_t>& pixels) {
  std::vector<std::uint8_t> colour(pixels.size() * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) std::fill_n(colour.begin() + 3 * i, 3, pixels[i]);
  pixels = std::move(colour);
}

// Appends one image; gray and colour images mixed make the whole set colour.
absl::Status Append(const fs::path& path, ImageU8 image, const fs::path& first, Dataset& data) {
  if (data.size() == 0) {
    data.height = image.height;
    data.width = image.width;
    data.channels = image.channels;
  }
  if (image.height != data.height || image.width != data.width) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.native(), ": got ", image.height, " x ", image.width, " pixels (height x width), expected ",
                     data.height, " x ", data.width, " as in ", first.native(),
                     "; a recipe with input { height: H width: W resize: RESIZE_POLICY_STRETCH } "
                     "takes files of many sizes"));
  }
  if (image.channels == 3 && data.channels == 1) {
    RepeatGray(data.pixels);
    data.channels = 3;
  }
  if (image.channels == 1 && data.channels == 3) RepeatGray(image.pixels);
  data.pixels.insert(data.pixels.end(), image.pixels.begin(), image.pixels.end());
  return absl::OkStatus();
}

}  // namespace

bool HasImageFolder(const fs::path& folder, Split split) { return !SplitFolder(folder, split).empty(); }

absl::StatusOr<Dataset> LoadImageFolder(const fs::path& folder, Split split, std::optional<ImageSize> stretch) {
  const fs::path root = SplitFolder(folder, split);
  if (root.empty()) {
    return absl::NotFoundError(absl::StrCat(folder.native(), ": no folder \"", std::string(SplitName(split)), "\""));
  }
  Dataset data;
  fs::path first;
  CKN_ASSIGN_OR_RETURN(const std::vector<fs::path> classes, SortedEntries(root));
  for (const fs::path& class_folder : classes) {
    if (!IsFolder(class_folder)) continue;  // a README or the like beside the class folders
    const std::string class_name = class_folder.filename().native();
    if (!IsPrintableUtf8(class_name)) {
      return absl::InvalidArgumentError(absl::StrCat(root.native(), ": folder name \"", absl::CHexEscape(class_name),
                                                     "\" is not printable UTF-8, expected a class name"));
    }
    const int label = static_cast<int>(data.class_names.size());
    data.class_names.push_back(class_name);
    CKN_ASSIGN_OR_RETURN(const std::vector<fs::path> files, SortedEntries(class_folder));
    if (files.empty()) return absl::InvalidArgumentError(absl::StrCat(class_folder.native(), ": no images"));
    for (const fs::path& path : files) {
      CKN_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> bytes, ReadFileBytes(path, 1));
      absl::StatusOr<ImageU8> image = Decode(std::as_bytes(std::span(bytes)), DecodeLimits());
      // At once, since the files may be many large photographs.
      if (image.ok() && stretch && (image->height != stretch->height || image->width != stretch->width)) {
        image = Resize(*image, stretch->height, stretch->width);
      }
      CKN_RETURN_IF_ERROR(Annotate(image.status(), path.native()));
      if (data.size() == 0) first = path;
      CKN_RETURN_IF_ERROR(Append(path, *std::move(image), first, data));
      data.labels.push_back(label);
      data.item_names.push_back(absl::StrCat(class_name, "/", path.filename().native()));
    }
  }
  if (data.size() == 0) {
    return absl::NotFoundError(absl::StrCat(root.native(), ": no class folders with images in it"));
  }
  return data;
}

}  // namespace ckn
