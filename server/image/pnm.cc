#include "server/image/pnm.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// Reads the white-space separated numbers of a PNM file.
class Scanner {
 public:
  Scanner(std::span<const std::byte> file, std::size_t at) : file_(file), at_(at) {}

  [[nodiscard]] std::size_t at() const { return at_; }

  // Skips white space and comments, then reads a decimal number; nothing at the end, at a non-digit or above 2^31 - 1.
  std::optional<std::int64_t> Number() {
    SkipSpace();
    if (at_ >= file_.size() || !IsDigit(Peek())) return std::nullopt;
    std::int64_t value = 0;
    for (; at_ < file_.size() && IsDigit(Peek()); ++at_) {
      value = value * 10 + (Peek() - '0');
      if (value > 0x7FFFFFFF) return std::nullopt;
    }
    return value;
  }

  // One digit of a text bitmap, which needs no space before the next.
  std::optional<std::int64_t> Bit() {
    SkipSpace();
    if (at_ >= file_.size() || (Peek() != '0' && Peek() != '1')) return std::nullopt;
    return std::to_integer<int>(file_[at_++]) - '0';
  }

  // The single white-space byte between the header and binary samples.
  bool Separator() {
    if (at_ >= file_.size() || !IsSpace(Peek())) return false;
    ++at_;
    return true;
  }

 private:
  static bool IsDigit(int c) { return c >= '0' && c <= '9'; }
  static bool IsSpace(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  [[nodiscard]] int Peek() const { return std::to_integer<int>(file_[at_]); }

  void SkipSpace() {
    while (at_ < file_.size()) {
      if (Peek() == '#') {
        while (at_ < file_.size() && Peek() != '\n' && Peek() != '\r') ++at_;
      } else if (IsSpace(Peek())) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::span<const std::byte> file_;
  std::size_t at_;
};

// 16-bit samples keep their upper 8 bits, as in every other format; other ranges are scaled to 0..255.
std::uint8_t ToByte(std::int64_t value, std::int64_t max_value) {
  if (max_value == 255) return static_cast<std::uint8_t>(value);
  if (max_value == 65535) return static_cast<std::uint8_t>(value >> 8);
  return static_cast<std::uint8_t>((value * 255 + max_value / 2) / max_value);
}

}  // namespace

absl::StatusOr<PnmHeader> ReadPnmHeader(std::span<const std::byte> file) {
  PnmHeader header;
  const absl::Status broken = absl::InvalidArgumentError("PNM: the header is broken or cut off");
  if (file.size() < 2) return broken;
  header.kind = static_cast<char>(file[1]);
  Scanner scanner(file, 2);
  const std::optional<std::int64_t> width = scanner.Number();
  const std::optional<std::int64_t> height = scanner.Number();
  if (!width || !height) return broken;
  header.width = *width;
  header.height = *height;
  if (header.kind != '1' && header.kind != '4') {
    const std::optional<std::int64_t> max_value = scanner.Number();
    if (!max_value) return broken;
    if (*max_value < 1 || *max_value > 65535) {
      return absl::InvalidArgumentError(absl::StrCat("PNM: got maximal value ", *max_value, ", expected 1 to 65535"));
    }
    header.max_value = *max_value;
  }
  if (!scanner.Separator()) return broken;
  header.data = scanner.at();
  return header;
}

absl::StatusOr<ImageU8> DecodePnm(std::span<const std::byte> file) {
  CKN_ASSIGN_OR_RETURN(const PnmHeader header, ReadPnmHeader(file));
  const bool bitmap = header.kind == '1' || header.kind == '4';
  const bool text = header.kind <= '3';
  ImageU8 image;
  image.height = static_cast<int>(header.height);
  image.width = static_cast<int>(header.width);
  image.channels = header.kind == '3' || header.kind == '6' ? 3 : 1;
  const std::size_t row_samples = static_cast<std::size_t>(header.width) * image.channels;
  const std::size_t samples = row_samples * static_cast<std::size_t>(header.height);
  const std::size_t sample_bytes = header.max_value > 255 ? 2 : 1;
  const std::size_t packed_row = (row_samples + 7) / 8;

  // A text sample takes at least one byte, so that a short file is refused before the picture is allocated.
  const std::size_t needed =
      header.kind == '4' ? packed_row * static_cast<std::size_t>(header.height) : samples * (text ? 1 : sample_bytes);
  if (file.size() - header.data < needed) {
    return absl::InvalidArgumentError(absl::StrCat("PNM: the file is cut off: got ", file.size() - header.data,
                                                   " bytes of samples, expected ", text ? "at least " : "", needed));
  }

  image.pixels.resize(samples);
  const auto byte_at = [&](std::size_t i) { return std::to_integer<std::uint8_t>(file[header.data + i]); };
  Scanner scanner(file, header.data);
  for (std::size_t i = 0; i < samples; ++i) {
    std::int64_t value = 0;
    if (text) {
      const std::optional<std::int64_t> number = bitmap ? scanner.Bit() : scanner.Number();
      if (!number) {
        return absl::InvalidArgumentError(
            absl::StrCat("PNM: no number at byte ", scanner.at(), " for sample ", i, " of ", samples));
      }
      value = *number;
    } else if (bitmap) {
      const std::size_t y = i / row_samples;
      const std::size_t x = i % row_samples;
      value = byte_at(y * packed_row + x / 8) >> (7 - x % 8) & 1;
    } else if (sample_bytes == 2) {
      value = byte_at(2 * i) << 8 | byte_at(2 * i + 1);
    } else {
      value = byte_at(i);
    }
    if (value > header.max_value) {
      return absl::InvalidArgumentError(
          absl::StrCat("PNM: sample ", i, " is ", value, ", expected at most ", header.max_value));
    }
    // In bitmaps 1 is black.
    image.pixels[i] = bitmap ? static_cast<std::uint8_t>(value != 0 ? 0 : 255) : ToByte(value, header.max_value);
  }
  return image;
}

}  // namespace ckn
