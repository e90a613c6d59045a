#include "server/image/file_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/image/bmp.h"
#include "server/image/byte_reader.h"
#include "server/image/pnm.h"

namespace ckn {
namespace {

template <typename... Args>
absl::Status Bad(FileFormat format, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(FormatName(format), ": ", args...));
}

absl::Status Truncated(FileFormat format) { return Bad(format, "the file is cut off in its header"); }

// Calls visit(tag, type, count, value offset) for each entry of the first directory of a TIFF structure, which is both
// the TIFF file itself and the block inside EXIF. The value offset already points at the value. False: malformed.
template <typename Visit>
bool ForEachTiffTag(std::span<const std::byte> block, const Visit& visit) {
  const ByteReader mark(block);
  const bool little = mark.Matches(0, "II");
  if (!little && !mark.Matches(0, "MM")) return false;
  const ByteReader bytes(block, !little);
  if (bytes.U16(2) != 42) return false;
  const std::size_t directory = bytes.U32(4);
  if (directory < 8 || !bytes.Has(directory, 2)) return false;
  const std::size_t entries = bytes.U16(directory);
  if (!bytes.Has(directory + 2, entries * 12)) return false;
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * 12;
    const std::uint32_t type = bytes.U16(entry + 2);
    const std::uint32_t count = bytes.U32(entry + 4);
    const std::size_t unit = type == 3 ? 2 : 4;  // SHORT or LONG; other types are not asked for below
    const std::size_t value = std::uint64_t{count} * unit <= 4 ? entry + 8 : bytes.U32(entry + 8);
    visit(bytes, bytes.U16(entry), type, count, value);
  }
  return true;
}

std::uint32_t TagValue(const ByteReader& bytes, std::uint32_t type, std::size_t offset) {
  return type == 3 ? bytes.U16(offset) : bytes.U32(offset);
}

constexpr std::uint32_t kOrientationTag = 274;

// Orientation of an EXIF block; anything unreadable counts as upright, as every viewer does.
int ExifOrientation(std::span<const std::byte> block) {
  int orientation = 1;
  ForEachTiffTag(block,
                 [&](const ByteReader& bytes, std::uint32_t tag, std::uint32_t type, std::uint32_t, std::size_t at) {
                   const std::uint32_t value = TagValue(bytes, type, at);
                   if (tag == kOrientationTag && value >= 1 && value <= 8) orientation = static_cast<int>(value);
                 });
  return orientation;
}

absl::StatusOr<FileHeader> ReadPng(const ByteReader& bytes) {
  FileHeader header{.format = FileFormat::kPng};
  if (!bytes.Has(0, 33)) return Truncated(FileFormat::kPng);
  if (!bytes.Matches(12, "IHDR")) return Bad(FileFormat::kPng, "the first chunk is not IHDR");
  header.width = bytes.U32(16);
  header.height = bytes.U32(20);
  for (std::size_t at = 8; bytes.Has(at, 12);) {
    const std::size_t length = bytes.U32(at);
    if (bytes.Matches(at + 4, "eXIf")) header.orientation = ExifOrientation(bytes.Sub(at + 8, length));
    at += length + 12;
  }
  return header;
}

absl::StatusOr<FileHeader> ReadJpeg(const ByteReader& bytes) {
  FileHeader header{.format = FileFormat::kJpeg};
  for (std::size_t at = 2;;) {
    if (!bytes.Has(at, 4)) return Truncated(FileFormat::kJpeg);
    if (bytes.U8(at) != 0xFF) return Bad(FileFormat::kJpeg, "no marker at byte ", at);
    const std::uint32_t marker = bytes.U8(at + 1);
    if (marker == 0xFF) {  // fill byte
      ++at;
      continue;
    }
    const std::size_t length = bytes.U16(at + 2);
    if (length < 2) return Bad(FileFormat::kJpeg, "segment of length ", length, " at byte ", at);
    if (marker == 0xE1 && bytes.Matches(at + 4, std::string_view("Exif\0\0", 6)) && length > 8) {
      header.orientation = ExifOrientation(bytes.Sub(at + 10, length - 8));
    }
    // Start of frame, of any coding process: C4, C8 and CC in this range are tables.
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) {
      if (!bytes.Has(at, 10)) return Truncated(FileFormat::kJpeg);
      header.height = bytes.U16(at + 5);
      header.width = bytes.U16(at + 7);
      return header;
    }
    if (marker == 0xDA || marker == 0xD9) return Bad(FileFormat::kJpeg, "no frame header before the image data");
    at += 2 + length;
  }
}

absl::StatusOr<FileHeader> ReadWebp(std::span<const std::byte> file) {
  FileHeader header{.format = FileFormat::kWebp};
  const ByteReader bytes(file, /*big_endian=*/false);
  if (!bytes.Has(0, 30)) return Truncated(FileFormat::kWebp);
  if (const std::uint64_t size = std::uint64_t{bytes.U32(4)} + 8; size > bytes.size()) {
    return Bad(FileFormat::kWebp, "got ", bytes.size(), " bytes, expected ", size);
  }
  if (bytes.Matches(12, "VP8 ")) {
    if (!bytes.Matches(23, "\x9d\x01\x2a")) return Bad(FileFormat::kWebp, "no key frame");
    header.width = bytes.U16(26) & 0x3FFF;
    header.height = bytes.U16(28) & 0x3FFF;
  } else if (bytes.Matches(12, "VP8L")) {
    if (bytes.U8(20) != 0x2F) return Bad(FileFormat::kWebp, "no lossless signature");
    const std::uint32_t bits = bytes.U32(21);
    header.width = (bits & 0x3FFF) + 1;
    header.height = (bits >> 14 & 0x3FFF) + 1;
  } else if (bytes.Matches(12, "VP8X")) {
    if ((bytes.U8(20) & 0x02) != 0) return Bad(FileFormat::kWebp, "animations are not supported");
    header.width = std::int64_t{bytes.U32(24) & 0xFFFFFF} + 1;
    header.height = std::int64_t{bytes.U32(26) >> 8} + 1;
    for (std::size_t at = 12; bytes.Has(at, 8);) {
      const std::size_t length = bytes.U32(at + 4);
      if (bytes.Matches(at, "EXIF")) {
        // Some writers keep the JPEG prefix in front of the block.
        const std::size_t prefix = bytes.Matches(at + 8, std::string_view("Exif\0\0", 6)) ? 6 : 0;
        header.orientation = ExifOrientation(bytes.Sub(at + 8 + prefix, length - std::min(prefix, length)));
      }
      at += 8 + length + length % 2;
    }
  } else {
    return Bad(FileFormat::kWebp, "unknown first chunk");
  }
  return header;
}

// An array of numbers in a TIFF directory.
struct TagArray {
  std::uint32_t type = 0;
  std::uint32_t count = 0;
  std::size_t offset = 0;

  [[nodiscard]] std::size_t unit() const { return type == 3 ? 2 : 4; }
  [[nodiscard]] std::uint64_t At(const ByteReader& bytes, std::size_t i) const {
    return TagValue(bytes, type, offset + i * unit());
  }
};

// The entries of a TIFF directory by tag, as far as they matter here.
class TiffTags {
 public:
  static constexpr std::uint32_t kMaxTag = 339;

  // False when the directory is broken, or an entry is there twice: which one counts is then up to the decoder.
  bool Collect(std::span<const std::byte> file) {
    bool unique = true;
    const bool ok = ForEachTiffTag(
        file, [&](const ByteReader&, std::uint32_t tag, std::uint32_t type, std::uint32_t count, std::size_t offset) {
          if (tag > kMaxTag) return;
          if (tags_[tag].type != 0) unique = false;
          tags_[tag] = {type, count, offset};
        });
    return ok && unique;
  }

  [[nodiscard]] const TagArray& Array(std::uint32_t tag) const { return tags_[tag]; }

  // The first number of an entry, `missing` when it is not there; 0 when it is neither SHORT nor LONG.
  [[nodiscard]] std::uint32_t Value(const ByteReader& bytes, std::uint32_t tag, std::uint32_t missing) const {
    const TagArray& array = tags_[tag];
    if (array.type == 0) return missing;
    return array.type == 3 || array.type == 4 ? TagValue(bytes, array.type, array.offset) : 0;
  }

 private:
  std::array<TagArray, kMaxTag + 1> tags_ = {};
};

// The strips must be as many as the picture needs, lie inside the file and hold at least `min_bytes`, of the last one
// `min_last_bytes`.
absl::Status CheckTiffStrips(const ByteReader& bytes, const TagArray& offsets, const TagArray& sizes,
                             std::uint64_t strips, std::uint64_t min_bytes, std::uint64_t min_last_bytes) {
  for (const TagArray* array : {&offsets, &sizes}) {
    if (array->count != strips || !bytes.Has(array->offset, array->count * array->unit())) {
      return Bad(FileFormat::kTiff, "got ", array->count, " strips, expected ", strips);
    }
  }
  for (std::size_t i = 0; i < strips; ++i) {
    if (!bytes.Has(offsets.At(bytes, i), sizes.At(bytes, i))) {
      return Bad(FileFormat::kTiff, "the file is cut off: strip ", i, " ends at byte ",
                 offsets.At(bytes, i) + sizes.At(bytes, i), ", the file at ", bytes.size());
    }
    const std::uint64_t expected = i + 1 < strips ? min_bytes : min_last_bytes;
    if (sizes.At(bytes, i) < expected) {
      return Bad(FileFormat::kTiff, "strip ", i, ": got ", sizes.At(bytes, i), " bytes, expected ", expected);
    }
  }
  return absl::OkStatus();
}

// The compressions that programs write. Others are rare, and old-style JPEG, LERC and their kin are code to attack.
bool IsTiffCompression(std::uint32_t compression) {
  constexpr std::array<std::uint32_t, 9> kCompressions = {1, 2, 3, 4, 5, 7, 8, 32773, 32946};
  return std::find(kCompressions.begin(), kCompressions.end(), compression) != kCompressions.end();
}

absl::StatusOr<FileHeader> ReadTiff(std::span<const std::byte> file) {
  FileHeader header{.format = FileFormat::kTiff};
  const ByteReader bytes(file, /*big_endian=*/!ByteReader(file).Matches(0, "II"));
  if (bytes.U16(2) == 43) return Bad(FileFormat::kTiff, "BigTIFF is not supported");
  TiffTags tags;
  if (!tags.Collect(file)) return Bad(FileFormat::kTiff, "the first directory is broken or cut off");
  const auto value = [&](std::uint32_t tag, std::uint32_t missing) { return tags.Value(bytes, tag, missing); };

  header.width = value(256, 0);
  header.height = value(257, 0);
  if (header.width < 1 || header.height < 1) return header;  // the caller says so
  const std::uint32_t bits = value(258, 1);
  bool alike = true;
  for (std::size_t i = 1; i < std::min(tags.Array(258).count, 4U); ++i) {
    alike = alike && tags.Array(258).At(bytes, i) == bits;
  }
  const std::uint32_t sample_format = value(339, 1);
  if (sample_format != 1 || (bits != 1 && bits != 8 && bits != 16) || !alike) {
    return Bad(FileFormat::kTiff, "got samples of ", bits, " bits and format ", sample_format,
               ", expected unsigned integers of 1, 8 or 16 bits, all alike");
  }
  constexpr std::uint32_t kSeparated = 5;
  constexpr std::uint32_t kShort = 3;
  if (tags.Array(262).type != kShort || tags.Array(262).count != 1) {
    return Bad(FileFormat::kTiff, "no photometric interpretation (tag 262)");
  }
  if (value(262, 0) == kSeparated) return Bad(FileFormat::kTiff, "CMYK is not supported, convert to RGB");
  constexpr std::uint32_t kPalette = 3;
  if (const TagArray& palette = tags.Array(320);
      value(262, 0) == kPalette && (palette.type != kShort || palette.count != 3U << bits)) {
    return Bad(FileFormat::kTiff, "got a palette of ", palette.count, " numbers, expected ", 3U << bits);
  }
  const std::uint32_t samples = value(277, 1);
  if (samples != 1 && samples != 3 && samples != 4) {
    return Bad(FileFormat::kTiff, "got ", samples, " samples per pixel, expected 1, 3 or 4");
  }
  if (samples > 1 && value(284, 1) != 1) return Bad(FileFormat::kTiff, "separate colour planes are not supported");
  // One of these four entries is enough for libtiff to look for tiles.
  for (const std::uint32_t tag : {322U, 323U, 324U, 325U}) {
    if (tags.Array(tag).type != 0) return Bad(FileFormat::kTiff, "tiles are not supported, write strips");
  }

  if (const std::uint32_t orientation = value(kOrientationTag, 1); orientation >= 1 && orientation <= 8) {
    header.orientation = static_cast<int>(orientation);
  }

  constexpr std::uint32_t kOneStrip = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t rows = value(278, kOneStrip);
  if (rows < 1) return Bad(FileFormat::kTiff, "got strips of 0 rows, expected at least 1");
  // Either may be almost 2^32.
  constexpr std::int64_t kMostPixels = std::numeric_limits<std::int64_t>::max();
  if (rows != kOneStrip) header.buffer_pixels = header.width > kMostPixels / rows ? kMostPixels : header.width * rows;
  const std::int64_t strips = (header.height + rows - 1) / rows;
  std::uint64_t strip_bytes = 1;
  std::uint64_t last_strip_bytes = 1;
  constexpr std::uint32_t kUncompressed = 1;
  const std::uint32_t compression = value(259, kUncompressed);
  if (!IsTiffCompression(compression)) {
    return Bad(FileFormat::kTiff, "got compression ", compression,
               ", expected none (1), CCITT (2 to 4), LZW (5), JPEG (7), Deflate (8) or PackBits (32773)");
  }
  if (compression == kUncompressed) {
    const std::uint64_t row_bytes = (static_cast<std::uint64_t>(header.width) * samples * bits + 7) / 8;
    const auto bytes_of = [row_bytes](std::int64_t count) {
      const auto n = static_cast<std::uint64_t>(count);
      return n > std::numeric_limits<std::uint64_t>::max() / row_bytes ? std::numeric_limits<std::uint64_t>::max()
                                                                       : row_bytes * n;
    };
    strip_bytes = bytes_of(rows);
    last_strip_bytes = bytes_of(header.height - (strips - 1) * rows);
  }
  CKN_RETURN_IF_ERROR(CheckTiffStrips(bytes, tags.Array(273), tags.Array(279), static_cast<std::uint64_t>(strips),
                                      strip_bytes, last_strip_bytes));
  return header;
}

absl::StatusOr<FileHeader> ReadBmp(std::span<const std::byte> file) {
  CKN_ASSIGN_OR_RETURN(const BmpHeader bmp, ReadBmpHeader(file));
  return FileHeader{.format = FileFormat::kBmp, .width = bmp.width, .height = bmp.height};
}

absl::StatusOr<FileHeader> ReadPnm(std::span<const std::byte> file) {
  CKN_ASSIGN_OR_RETURN(const PnmHeader pnm, ReadPnmHeader(file));
  return FileHeader{.format = FileFormat::kPnm, .width = pnm.width, .height = pnm.height};
}

absl::StatusOr<FileHeader> ReadAny(std::span<const std::byte> file) {
  const ByteReader bytes(file);
  if (file.empty()) return absl::InvalidArgumentError("the image is empty");
  if (bytes.Matches(0, "\x89PNG\r\n\x1a\n")) return ReadPng(bytes);
  if (bytes.Matches(0, "\xFF\xD8\xFF")) return ReadJpeg(bytes);
  if (bytes.Matches(0, "RIFF") && bytes.Matches(8, "WEBP")) return ReadWebp(file);
  if (bytes.Matches(0, "BM")) return ReadBmp(file);
  for (const std::string_view mark : {std::string_view("II*\0", 4), std::string_view("MM\0*", 4),
                                      std::string_view("II+\0", 4), std::string_view("MM\0+", 4)}) {
    if (bytes.Matches(0, mark)) return ReadTiff(file);
  }
  if (bytes.U8(0) == 'P' && bytes.U8(1) >= '1' && bytes.U8(1) <= '6') return ReadPnm(file);
  return absl::InvalidArgumentError("unknown image format, expected PNG, JPEG, WebP, BMP, TIFF or PNM");
}

}  // namespace

const char* FormatName(FileFormat format) {
  switch (format) {
    case FileFormat::kPng:
      return "PNG";
    case FileFormat::kJpeg:
      return "JPEG";
    case FileFormat::kWebp:
      return "WebP";
    case FileFormat::kBmp:
      return "BMP";
    case FileFormat::kTiff:
      return "TIFF";
    case FileFormat::kPnm:
      return "PNM";
  }
  return "";
}

absl::StatusOr<FileHeader> ReadFileHeader(std::span<const std::byte> file) {
  CKN_ASSIGN_OR_RETURN(const FileHeader header, ReadAny(file));
  if (header.width < 1 || header.height < 1) {
    return Bad(header.format, "got ", header.width, " x ", header.height, " pixels, expected at least 1 x 1");
  }
  return header;
}

}  // namespace ckn
