#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/training/dataset_readers.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kImagesMagic = 2051;
constexpr std::uint32_t kLabelsMagic = 2049;
constexpr std::uint32_t kMaxSide = 1U << 14;

// The four ways in which these files are named: "train-images-idx3-ubyte" or "train-images.idx3-ubyte", plain or .gz.
// Empty when none is there.
fs::path FindIdxFile(const fs::path& folder, Split split, const char* what, const char* rank) {
  const char* const prefix = split == Split::kTrain ? "train" : "t10k";
  for (const char* const suffix : {"", ".gz"}) {
    for (const char* const separator : {"-", "."}) {
      fs::path path = folder / absl::StrCat(prefix, "-", what, separator, rank, "-ubyte", suffix);
      if (IsFile(path)) return path;
    }
  }
  return {};
}

fs::path ImagesPath(const fs::path& folder, Split split) { return FindIdxFile(folder, split, "images", "idx3"); }
fs::path LabelsPath(const fs::path& folder, Split split) { return FindIdxFile(folder, split, "labels", "idx1"); }

// Reads a file through zlib, which also passes plain files on unchanged. Offsets count uncompressed bytes.
class Reader {
 public:
  explicit Reader(const fs::path& path) : path_(path.native()), file_(gzopen(path.c_str(), "rb")) {
    if (file_ != nullptr) gzbuffer(file_, 1 << 17);
  }
  ~Reader() {
    if (file_ != nullptr) gzclose_r(file_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  template <typename... Args>
  [[nodiscard]] absl::Status Bad(const Args&... args) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", args...));
  }

  // A big-endian number of the header.
  absl::StatusOr<std::uint32_t> Number() {
    std::array<std::uint8_t, 4> bytes = {};
    CKN_RETURN_IF_ERROR(Fill(bytes.data(), bytes.size()));
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
  }

  // The next `count` bytes. Memory grows with what the file really holds, whatever its header says.
  absl::StatusOr<std::vector<std::uint8_t>> Bytes(std::uint64_t count) {
    constexpr std::uint64_t kFirstStep = std::uint64_t{1} << 20;
    std::vector<std::uint8_t> bytes;
    while (bytes.size() < count) {
      const std::size_t have = bytes.size();
      bytes.resize(have + std::min(count - have, std::max<std::uint64_t>(have, kFirstStep)));
      CKN_RETURN_IF_ERROR(Fill(bytes.data() + have, bytes.size() - have));
    }
    return bytes;
  }

  absl::Status End() {
    std::uint8_t byte = 0;
    const int got = file_ == nullptr ? -1 : gzread(file_, &byte, 1);
    if (got < 0) return Bad("cannot read at byte ", offset_, ": ", Error());
    if (got > 0) return Bad("trailing data at byte ", offset_, ", expected the end of the file");
    // All bytes are there but the checksum behind them is cut off.
    if (ErrorCode() != Z_OK) return Bad("truncated at byte ", offset_, ": ", Error());
    return absl::OkStatus();
  }

 private:
  absl::Status Fill(std::uint8_t* out, std::size_t count) {
    if (file_ == nullptr) return Bad("cannot open");
    for (std::size_t done = 0; done < count;) {
      const auto want = static_cast<unsigned>(std::min<std::size_t>(count - done, std::numeric_limits<int>::max()));
      const int got = gzread(file_, out + done, want);
      if (got < 0) return Bad("cannot read at byte ", offset_, ": ", Error());
      if (got == 0) return Bad("truncated at byte ", offset_, ", expected ", count - done, " bytes more");
      done += static_cast<std::size_t>(got);
      offset_ += static_cast<std::uint64_t>(got);
    }
    return absl::OkStatus();
  }

  [[nodiscard]] int ErrorCode() const {
    int code = Z_OK;
    gzerror(file_, &code);
    return code;
  }

  // zlib puts the path in front, as the messages here do.
  [[nodiscard]] std::string Error() const {
    if (file_ == nullptr) return "cannot open";
    int code = Z_OK;
    std::string message = gzerror(file_, &code);
    if (message.rfind(path_ + ": ", 0) == 0) message.erase(0, path_.size() + 2);
    return message;
  }

  std::string path_;
  gzFile file_;
  std::uint64_t offset_ = 0;
};

absl::Status ReadMagic(Reader& reader, std::uint32_t expected) {
  CKN_ASSIGN_OR_RETURN(const std::uint32_t magic, reader.Number());
  if (magic == expected) return absl::OkStatus();
  return reader.Bad("got magic number ", magic, " at byte 0, expected ", expected);
}

absl::StatusOr<std::vector<std::uint8_t>> ReadLabels(const fs::path& path) {
  Reader reader(path);
  CKN_RETURN_IF_ERROR(ReadMagic(reader, kLabelsMagic));
  CKN_ASSIGN_OR_RETURN(const std::uint32_t count, reader.Number());
  CKN_ASSIGN_OR_RETURN(std::vector<std::uint8_t> labels, reader.Bytes(count));
  CKN_RETURN_IF_ERROR(reader.End());
  return labels;
}

}  // namespace

bool HasIdx(const fs::path& folder, Split split) {
  return !ImagesPath(folder, split).empty() && !LabelsPath(folder, split).empty();
}

absl::StatusOr<Dataset> LoadIdx(const fs::path& folder, Split split) {
  const fs::path images_path = ImagesPath(folder, split);
  const fs::path labels_path = LabelsPath(folder, split);
  if (images_path.empty() || labels_path.empty()) {
    const char* const prefix = split == Split::kTrain ? "train" : "t10k";
    return absl::NotFoundError(absl::StrCat(folder.native(), ": no ", prefix, "-",
                                            images_path.empty() ? "images-idx3" : "labels-idx1",
                                            "-ubyte or .gz in this folder"));
  }

  Dataset data;
  CKN_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> labels, ReadLabels(labels_path));
  Reader reader(images_path);
  CKN_RETURN_IF_ERROR(ReadMagic(reader, kImagesMagic));
  CKN_ASSIGN_OR_RETURN(const std::uint32_t count, reader.Number());
  CKN_ASSIGN_OR_RETURN(const std::uint32_t height, reader.Number());
  CKN_ASSIGN_OR_RETURN(const std::uint32_t width, reader.Number());
  if (count == 0) return reader.Bad("got 0 images at byte 4, expected at least 1");
  if (count != labels.size()) {
    return reader.Bad("got ", count, " images, expected ", labels.size(), " as in ", labels_path.filename().native());
  }
  if (height < 1 || height > kMaxSide || width < 1 || width > kMaxSide) {
    return reader.Bad("got images of ", height, " x ", width, " at byte 8, expected sides of 1 to ", kMaxSide);
  }
  data.height = static_cast<int>(height);
  data.width = static_cast<int>(width);
  data.channels = 1;
  CKN_ASSIGN_OR_RETURN(data.pixels, reader.Bytes(std::uint64_t{count} * height * width));
  CKN_RETURN_IF_ERROR(reader.End());

  data.labels.assign(labels.begin(), labels.end());
  const int max_label = *std::max_element(data.labels.begin(), data.labels.end());
  if (const fs::path names = folder / "class_names.txt"; IsFile(names)) {
    CKN_ASSIGN_OR_RETURN(data.class_names, ReadClassNames(names, static_cast<std::size_t>(max_label) + 1));
  } else {
    data.has_class_names = false;
    for (int label = 0; label <= max_label; ++label) data.class_names.push_back(absl::StrCat(label));
  }
  return data;
}

}  // namespace ckn
