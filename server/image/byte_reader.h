#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace ckn {

// Bounds-checked reads from a file's bytes: past the end, Has() is false and every number is 0.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes, bool big_endian = true)
      : bytes_(bytes), big_endian_(big_endian) {}

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool Has(std::size_t offset, std::size_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }
  [[nodiscard]] bool Matches(std::size_t offset, std::string_view text) const {
    return Has(offset, text.size()) && std::memcmp(bytes_.data() + offset, text.data(), text.size()) == 0;
  }
  [[nodiscard]] std::uint32_t U8(std::size_t offset) const {
    return Has(offset, 1) ? std::to_integer<std::uint32_t>(bytes_[offset]) : 0;
  }
  [[nodiscard]] std::uint32_t U16(std::size_t offset) const {
    if (!Has(offset, 2)) return 0;
    return big_endian_ ? U8(offset) << 8 | U8(offset + 1) : U8(offset + 1) << 8 | U8(offset);
  }
  [[nodiscard]] std::uint32_t U32(std::size_t offset) const {
    if (!Has(offset, 4)) return 0;
    return big_endian_ ? U16(offset) << 16 | U16(offset + 2) : U16(offset + 2) << 16 | U16(offset);
  }
  // The bytes from `offset` on, at most `count`.
  [[nodiscard]] std::span<const std::byte> Sub(std::size_t offset, std::size_t count) const {
    offset = std::min(offset, bytes_.size());
    return bytes_.subspan(offset, std::min(count, bytes_.size() - offset));
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_;
};

}  // namespace ckn
