#include "server/store/model_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/atomic_file.h"
#include "server/base/guarded.h"
#include "server/base/regular_file.h"
#include "server/base/sha256.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// Layout of the container; FORMAT.md draws it.
// The first byte is no ASCII letter and the line ends in it are changed by text-mode transfers, as in PNG.
constexpr std::string_view kMagic(
    "\x89"
    "CKN\r\n\x1a\n",
    8);
constexpr std::uint32_t kVersion = 4;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kHeaderBytesAt = 12;
constexpr std::size_t kPayloadBytesAt = 16;
constexpr std::size_t kChecksumAt = 24;
constexpr std::size_t kHeaderBytes = 56;
static_assert(kChecksumAt + Sha256::kDigestBytes == kHeaderBytes);

void AppendNumber(std::uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

std::uint64_t ReadNumber(std::string_view bytes, std::size_t at, int count) {
  std::uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// Checks everything before the payload; `bytes` may be only the first kHeaderBytes of a file of `file_bytes`.
absl::Status CheckHeader(std::string_view bytes, std::uint64_t file_bytes, const ModelLimits& limits) {
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, bytes.size()) || bytes.empty()) {
    return absl::DataLossError("not a model file: the first 8 bytes are not its signature");
  }
  if (bytes.size() < kHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("truncated: got ", bytes.size(), " bytes, expected a header of ", kHeaderBytes));
  }
  const std::uint64_t version = ReadNumber(bytes, kVersionAt, 4);
  if (version > kVersion) {
    return absl::UnimplementedError(
        absl::StrCat("written by a newer program: got format version ", version, ", expected at most ", kVersion));
  }
  if (version < 1) return absl::DataLossError("damaged header: got format version 0, expected at least 1");
  if (const std::uint64_t got = ReadNumber(bytes, kHeaderBytesAt, 4); got != kHeaderBytes) {
    return absl::DataLossError(absl::StrCat("damaged header: got header length ", got, ", expected ", kHeaderBytes));
  }
  if (file_bytes > limits.max_file_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("file size: got ", file_bytes, " bytes, expected at most ", limits.max_file_bytes));
  }
  const std::uint64_t payload = ReadNumber(bytes, kPayloadBytesAt, 8);
  if (const std::uint64_t expected = file_bytes - kHeaderBytes; payload != expected) {
    return absl::DataLossError(absl::StrCat(payload > expected ? "truncated" : "trailing data", ": got ", expected,
                                            " bytes after the header, expected ", payload));
  }
  return absl::OkStatus();
}

// The first version whose readers understand all that is in the model.
std::uint32_t VersionOf(const v1::Model& proto) {
  const auto any_layer = [&proto](auto has) { return std::ranges::any_of(proto.layers(), has); };
  const auto mirrors = [](const auto& network) { return network.input().mirror(); };
  if (mirrors(proto) || std::ranges::any_of(proto.networks(), mirrors)) return 4;
  if (proto.networks_size() > 0) return 3;
  if (any_layer([](const v1::Layer& layer) { return !layer.whitening().empty(); })) return 3;
  if (any_layer([](const v1::Layer& layer) { return !layer.projection().empty(); })) return 2;
  return 1;
}

std::string Serialize(const v1::Model& proto) {
  std::string payload;
  {
    google::protobuf::io::StringOutputStream stream(&payload);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    const bool ok = proto.SerializeToCodedStream(&coded);
    assert(ok);
    static_cast<void>(ok);
  }
  std::string file(kMagic);
  file.reserve(kHeaderBytes + payload.size());
  AppendNumber(VersionOf(proto), 4, file);
  AppendNumber(kHeaderBytes, 4, file);
  AppendNumber(payload.size(), 8, file);
  file += Sha256Digest(payload);
  file += payload;
  return file;
}

absl::StatusOr<LoadedModel> Read(const std::string& path, const ModelLimits& limits) {
  CKN_ASSIGN_OR_RETURN(RegularFile file, RegularFile::Open(path));
  // The header is judged before memory for the rest is asked for.
  std::array<char, kHeaderBytes> header = {};
  CKN_ASSIGN_OR_RETURN(const std::size_t header_bytes, file.Read(std::as_writable_bytes(std::span(header))));
  CKN_RETURN_IF_ERROR(CheckHeader({header.data(), header_bytes}, file.size(), limits));
  std::string bytes(file.size(), '\0');
  std::copy(header.begin(), header.end(), bytes.begin());
  CKN_ASSIGN_OR_RETURN(const std::size_t rest,
                       file.Read(std::as_writable_bytes(std::span<char>(bytes).subspan(kHeaderBytes))));
  bytes.resize(kHeaderBytes + rest);  // shorter when the file shrank meanwhile; the parser says so

  CKN_ASSIGN_OR_RETURN(Model model, ParseModelFile(std::as_bytes(std::span<const char>(bytes)), limits));
  return LoadedModel{std::move(model), Sha256Hex(bytes), file.size()};
}

}  // namespace

std::string SerializeModelFile(const Model& model) { return Serialize(ToProto(model)); }

absl::StatusOr<Model> ParseModelFile(std::span<const std::byte> file, const ModelLimits& limits) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  CKN_RETURN_IF_ERROR(CheckHeader(bytes, bytes.size(), limits));
  const std::string_view payload = bytes.substr(kHeaderBytes);
  const std::string_view expected = bytes.substr(kChecksumAt, Sha256::kDigestBytes);
  if (const std::string got = Sha256Digest(payload); got != expected) {
    return absl::DataLossError(
        absl::StrCat("checksum: got ", absl::BytesToHexString(got), ", expected ",
                     absl::BytesToHexString(absl::string_view(expected.data(), expected.size()))));
  }
  if (std::cmp_greater(payload.size(), std::numeric_limits<int>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("payload: got ", payload.size(), " bytes, expected less than 2 GiB"));
  }
  v1::Model proto;
  if (!proto.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::InvalidArgumentError("the payload is not a ckn.v1.Model message");
  }
  const std::uint64_t version = ReadNumber(bytes, kVersionAt, 4);
  if (const std::uint32_t needed = VersionOf(proto); version != needed) {
    return absl::DataLossError(
        absl::StrCat("damaged header: got format version ", version, ", expected ", needed, " for what is in it"));
  }
  return FromProto(proto, limits);
}

bool LooksLikeModelFile(const std::string& path) {
  absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok()) return false;
  std::array<char, kMagic.size()> begin = {};
  const absl::StatusOr<std::size_t> got = file->Read(std::as_writable_bytes(std::span(begin)));
  return got.ok() && std::string_view(begin.data(), *got) == kMagic;
}

absl::Status WriteModelFile(const Model& model, const std::string& path) {
  const v1::Model proto = ToProto(model);
  if (proto.ByteSizeLong() > ModelLimits().max_file_bytes - kHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a model of ", proto.ByteSizeLong(), " bytes, expected less than 2 GiB"));
  }
  CKN_RETURN_IF_ERROR(Annotate(FromProto(proto, {}).status(), path));
  return WriteFileAtomically(path, Serialize(proto));
}

absl::StatusOr<LoadedModel> ReadModelFile(const std::string& path, const ModelLimits& limits) {
  absl::StatusOr<LoadedModel> loaded = absl::UnknownError("");
  const absl::Status read = Guarded([&] {
    loaded = Read(path, limits);
    return loaded.status();
  });
  CKN_RETURN_IF_ERROR(Annotate(read, path));
  return loaded;
}

}  // namespace ckn
