#include "server/image/bmp.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"
#include "server/image/byte_reader.h"
#include "server/image/codecs.h"

namespace ckn {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::size_t kMasks = 54;  // behind the 40 bytes that all versions of the information header share

enum Compression : std::uint32_t { kRgb = 0, kRunLength8 = 1, kRunLength4 = 2, kBitFields = 3 };

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("BMP: ", args...));
}

absl::StatusOr<BmpHeader::Mask> ReadMask(std::uint32_t bits) {
  if (bits == 0) return BmpHeader::Mask();
  const auto shift = static_cast<std::uint32_t>(std::countr_zero(bits));
  const std::uint32_t max_value = bits >> shift;
  if ((max_value & (max_value + 1)) != 0) return Bad("got mask ", absl::Hex(bits), ", expected bits in a row");
  return BmpHeader::Mask{.shift = shift, .max_value = max_value};
}

std::uint8_t Sample(std::uint32_t pixel, const BmpHeader::Mask& mask) {
  if (mask.max_value == 0) return 0;
  const std::uint64_t value = pixel >> mask.shift & mask.max_value;
  return static_cast<std::uint8_t>((value * 255 + mask.max_value / 2) / mask.max_value);
}

// Depth, compression and palette, and the masks of 16 and 32 bits.
absl::Status ReadPixelFormat(const ByteReader& bytes, BmpHeader& header) {
  const std::uint32_t info_size = bytes.U32(kFileHeader);
  const std::uint32_t compression = bytes.U32(30);
  header.depth = bytes.U16(28);
  const std::uint32_t depth = header.depth;
  if (depth != 1 && depth != 4 && depth != 8 && depth != 16 && depth != 24 && depth != 32) {
    return Bad("got ", depth, " bits per pixel, expected 1, 4, 8, 16, 24 or 32");
  }
  if (compression > kBitFields) return Bad("got compression ", compression, ", expected at most ", kBitFields);
  header.run_length = compression == kRunLength8 || compression == kRunLength4;
  if ((compression == kRunLength8 && depth != 8) || (compression == kRunLength4 && depth != 4) ||
      (compression == kBitFields && depth != 16 && depth != 32)) {
    return Bad("compression ", compression, " does not go with ", depth, " bits per pixel");
  }
  if (header.run_length && header.from_top) return Bad("run-length coded rows cannot be stored from the top");

  const std::uint64_t colours = bytes.U32(46) == 0 && depth <= 8 ? std::uint64_t{1} << depth : bytes.U32(46);
  header.palette = kFileHeader + info_size;
  header.colours = colours;
  if (colours > 256 || !bytes.Has(header.palette, colours * 4)) {
    return Bad("the palette of ", colours, " colours is too large or cut off");
  }

  std::array<std::uint32_t, 4> masks = {0xFF0000, 0xFF00, 0xFF, 0};
  if (depth == 16) masks = {0x7C00, 0x3E0, 0x1F, 0};
  if (compression == kBitFields) {
    if (!bytes.Has(kMasks, 12)) return Bad("the file is cut off in its header");
    // Only headers from version 3 on have a mask for alpha; without one the fourth byte means nothing.
    masks = {bytes.U32(kMasks), bytes.U32(kMasks + 4), bytes.U32(kMasks + 8),
             info_size >= 56 ? bytes.U32(kMasks + 12) : 0};
  }
  for (std::size_t i = 0; i < masks.size(); ++i) {
    CKN_ASSIGN_OR_RETURN(header.masks[i], ReadMask(masks[i]));
  }
  return absl::OkStatus();
}

// Bytes of a row of a file that is not run-length coded: rows begin at multiples of four.
std::uint64_t RowBytes(const BmpHeader& header) {
  return (static_cast<std::uint64_t>(header.width) * header.depth + 31) / 32 * 4;
}

std::size_t Area(const BmpHeader& header) {
  return static_cast<std::size_t>(header.width) * static_cast<std::size_t>(header.height);
}

// Calls pixel(x, y, bits) for each pixel, y counted from the top. Bits past the end of a file are not asked for.
template <typename Pixel>
void ForEachPixel(const ByteReader& bytes, const BmpHeader& header, const Pixel& pixel) {
  const std::uint64_t row_bytes = RowBytes(header);
  for (std::int64_t row = 0; row < header.height; ++row) {
    const std::size_t first = header.data + static_cast<std::size_t>(row) * row_bytes;
    const std::int64_t y = header.from_top ? row : header.height - 1 - row;
    for (std::int64_t x = 0; x < header.width; ++x) {
      const auto at = static_cast<std::size_t>(x);
      switch (header.depth) {
        case 16:
          pixel(x, y, bytes.U16(first + at * 2));
          break;
        case 24:
          pixel(x, y, bytes.U16(first + at * 3) | bytes.U8(first + at * 3 + 2) << 16);
          break;
        case 32:
          pixel(x, y, bytes.U32(first + at * 4));
          break;
        default: {  // 1, 4 or 8: the leftmost pixel in the highest bits
          const std::size_t bit = at * header.depth;
          const std::size_t shift = 8 - header.depth - bit % 8;
          pixel(x, y, bytes.U8(first + bit / 8) >> shift & ((1U << header.depth) - 1));
        }
      }
    }
  }
}

ImageU8 NewImage(const BmpHeader& header, int channels) {
  return {.height = static_cast<int>(header.height),
          .width = static_cast<int>(header.width),
          .channels = channels,
          .pixels = std::vector<std::uint8_t>(Area(header) * static_cast<std::size_t>(channels))};
}

ImageU8 DecodeColours(const ByteReader& bytes, const BmpHeader& header) {
  ImageU8 image = NewImage(header, header.masks[3].max_value != 0 ? 4 : 3);
  const auto channels = static_cast<std::size_t>(image.channels);
  ForEachPixel(bytes, header, [&](std::int64_t x, std::int64_t y, std::uint32_t bits) {
    std::uint8_t* const out = image.pixels.data() + static_cast<std::size_t>(y * header.width + x) * channels;
    for (std::size_t c = 0; c < channels; ++c) out[c] = Sample(bits, header.masks[c]);
  });
  ComposeOverBlack(image);
  return image;
}

// Runs, single pixels, ends of rows and moves, up to the end of the picture. Pixels that are moved over keep colour 0.
class RunLengthDecoder {
 public:
  RunLengthDecoder(const ByteReader& bytes, const BmpHeader& header)
      : bytes_(bytes), header_(header), at_(header.data), indices_(Area(header)) {}

  absl::StatusOr<std::vector<std::uint8_t>> Decode() {
    constexpr std::uint32_t kEndOfRow = 0;
    constexpr std::uint32_t kEndOfPicture = 1;
    constexpr std::uint32_t kMove = 2;
    for (;;) {
      if (!bytes_.Has(at_, 2)) return Bad("the file is cut off in its pixels");
      const std::uint32_t count = bytes_.U8(at_);
      const std::uint32_t value = bytes_.U8(at_ + 1);
      at_ += 2;
      if (count > 0) {
        CKN_RETURN_IF_ERROR(Put(count, [value, this](std::uint32_t i) { return Nibble(value, i); }));
      } else if (value == kEndOfRow) {
        x_ = 0;
        ++row_;
      } else if (value == kEndOfPicture) {
        return std::move(indices_);
      } else if (value == kMove) {
        if (!bytes_.Has(at_, 2)) return Bad("the file is cut off in its pixels");
        x_ += bytes_.U8(at_);
        row_ += bytes_.U8(at_ + 1);
        at_ += 2;
      } else {
        // `value` single pixels, filled up to a multiple of two bytes.
        const std::size_t size = (std::size_t{value} * header_.depth + 15) / 16 * 2;
        if (!bytes_.Has(at_, size)) return Bad("the file is cut off in its pixels");
        CKN_RETURN_IF_ERROR(Put(
            value, [this](std::uint32_t i) { return Nibble(bytes_.U8(at_ + (header_.depth == 8 ? i : i / 2)), i); }));
        at_ += size;
      }
    }
  }

 private:
  // With 4 bits the pixels of a byte alternate, the higher half first.
  [[nodiscard]] std::uint8_t Nibble(std::uint32_t byte, std::uint32_t i) const {
    if (header_.depth == 8) return static_cast<std::uint8_t>(byte);
    return static_cast<std::uint8_t>(i % 2 == 0 ? byte >> 4 : byte & 0xF);
  }

  template <typename Index>
  absl::Status Put(std::uint32_t count, const Index& index) {
    if (row_ >= header_.height || x_ + count > header_.width) {
      return Bad("pixels up to ", x_ + count, " in row ", row_, ", expected ", header_.height, " rows of ",
                 header_.width);
    }
    const std::int64_t first = (header_.height - 1 - row_) * header_.width + x_;
    for (std::uint32_t i = 0; i < count; ++i) indices_[static_cast<std::size_t>(first) + i] = index(i);
    x_ += count;
    return absl::OkStatus();
  }

  const ByteReader& bytes_;
  const BmpHeader& header_;
  std::size_t at_;
  std::vector<std::uint8_t> indices_;
  std::int64_t x_ = 0;
  std::int64_t row_ = 0;  // from the bottom
};

absl::StatusOr<ImageU8> DecodePalette(const ByteReader& bytes, const BmpHeader& header) {
  std::vector<std::uint8_t> indices;
  if (header.run_length) {
    CKN_ASSIGN_OR_RETURN(indices, RunLengthDecoder(bytes, header).Decode());
  } else {
    indices.resize(Area(header));
    ForEachPixel(bytes, header, [&](std::int64_t x, std::int64_t y, std::uint32_t bits) {
      indices[static_cast<std::size_t>(y * header.width + x)] = static_cast<std::uint8_t>(bits);
    });
  }
  if (const auto highest = *std::max_element(indices.begin(), indices.end()); highest >= header.colours) {
    return Bad("got colour ", highest, " of a palette of ", header.colours);
  }

  std::array<std::array<std::uint8_t, 3>, 256> palette = {};
  bool gray = true;
  for (std::size_t i = 0; i < header.colours; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      palette[i][c] = static_cast<std::uint8_t>(bytes.U8(header.palette + i * 4 + 2 - c));
    }
    gray = gray && palette[i][0] == palette[i][1] && palette[i][0] == palette[i][2];
  }
  ImageU8 image = NewImage(header, gray ? 1 : 3);
  auto out = image.pixels.begin();
  for (const std::uint8_t index : indices) out = std::copy_n(palette[index].begin(), image.channels, out);
  return image;
}

}  // namespace

absl::StatusOr<BmpHeader> ReadBmpHeader(std::span<const std::byte> file) {
  const ByteReader bytes(file, /*big_endian=*/false);
  if (!bytes.Has(0, kMasks)) return Bad("the file is cut off in its header");
  const std::uint32_t info_size = bytes.U32(kFileHeader);
  if (info_size < 40) return Bad("got an information header of ", info_size, " bytes, expected at least 40");
  if (!bytes.Has(kFileHeader, info_size)) return Bad("the file is cut off in its header");
  BmpHeader header;
  header.width = static_cast<std::int32_t>(bytes.U32(18));
  const std::int64_t height = static_cast<std::int32_t>(bytes.U32(22));
  header.from_top = height < 0;
  header.height = header.from_top ? -height : height;
  header.data = bytes.U32(10);
  CKN_RETURN_IF_ERROR(ReadPixelFormat(bytes, header));
  if (header.width > 0 && !header.run_length) {
    const std::uint64_t row = RowBytes(header);
    if (header.data > bytes.size() || static_cast<std::uint64_t>(header.height) > (bytes.size() - header.data) / row) {
      return Bad("got ", bytes.size(), " bytes, expected ", header.height, " rows of ", row, " bytes from byte ",
                 header.data, " on");
    }
  }
  return header;
}

absl::StatusOr<ImageU8> DecodeBmp(std::span<const std::byte> file) {
  CKN_ASSIGN_OR_RETURN(const BmpHeader header, ReadBmpHeader(file));
  const ByteReader bytes(file, /*big_endian=*/false);
  if (header.depth > 8) return DecodeColours(bytes, header);
  return DecodePalette(bytes, header);
}

}  // namespace ckn
