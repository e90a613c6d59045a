#include "server/base/npy.h"

#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/endian.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// Magic, version, header length, then a Python dictionary padded so that the data start at a multiple of 64.
std::string Header(std::span<const std::int64_t> shape) {
  std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    absl::StrAppend(&dictionary, i > 0 ? " " : "", shape[i], shape.size() == 1 || i + 1 < shape.size() ? "," : "");
  }
  absl::StrAppend(&dictionary, "), }");
  constexpr std::size_t kPrefix = 10;
  const std::size_t unpadded = kPrefix + dictionary.size() + 1;
  dictionary.append((64 - unpadded % 64) % 64, ' ');
  dictionary.push_back('\n');

  std::string header = "\x93NUMPY";
  header.push_back(1);
  header.push_back(0);
  header.push_back(static_cast<char>(dictionary.size() & 0xFF));
  header.push_back(static_cast<char>(dictionary.size() >> 8));
  return header + dictionary;
}

}  // namespace

NpyWriter::NpyWriter(std::string path, AtomicFile file, std::int64_t count)
    : path_(std::move(path)), file_(std::move(file)), expected_(count) {}

absl::StatusOr<NpyWriter> NpyWriter::Create(const std::string& path, std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t side : shape) {
    if (side < 0 || (side > 0 && count > std::numeric_limits<std::int64_t>::max() / 4 / side)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": an array cannot have a side of ", side));
    }
    count *= side;
  }
  if (shape.size() > 32) {  // NumPy's own limit; it also keeps the header below 64 KiB
    return absl::InvalidArgumentError(absl::StrCat(path, ": got ", shape.size(), " dimensions, expected at most 32"));
  }
  CKN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NpyWriter writer(path, std::move(file), count);
  CKN_RETURN_IF_ERROR(writer.Write(Header(shape)));
  return writer;
}

absl::Status NpyWriter::Append(std::span<const float> values) {
  if (std::cmp_greater(values.size(), expected_ - written_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": got ", static_cast<std::uint64_t>(written_) + values.size(), " values, expected ", expected_));
  }
  written_ += static_cast<std::int64_t>(values.size());
  std::string bytes;
  AppendFloats(values, bytes);
  return Write(bytes);
}

absl::Status NpyWriter::Write(const std::string& bytes) {
  sha256_->Update(bytes);
  return file_.Append(bytes);
}

absl::Status NpyWriter::Close() {
  if (written_ != expected_) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": got ", written_, " values, expected ", expected_));
  }
  return file_.Commit();
}

absl::Status WriteNpy(const std::string& path, std::span<const float> values, std::span<const std::int64_t> shape) {
  CKN_ASSIGN_OR_RETURN(NpyWriter writer, NpyWriter::Create(path, shape));
  CKN_RETURN_IF_ERROR(writer.Append(values));
  return writer.Close();
}

}  // namespace ckn
