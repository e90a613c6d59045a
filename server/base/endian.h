#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

// Little-endian float32, the number format of every file this project writes.
namespace ckn {

static_assert(sizeof(float) == 4);

inline std::uint32_t LittleEndian32(std::uint32_t value) {
  if constexpr (std::endian::native == std::endian::big) return __builtin_bswap32(value);
  return value;
}

// Appends 4 * values.size() bytes to `out`.
inline void AppendFloats(std::span<const float> values, std::string& out) {
  const std::size_t start = out.size();
  out.resize(start + values.size_bytes());
  if constexpr (std::endian::native == std::endian::little) {
    if (!values.empty()) std::memcpy(out.data() + start, values.data(), values.size_bytes());
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t bits = LittleEndian32(std::bit_cast<std::uint32_t>(values[i]));
      std::memcpy(out.data() + start + 4 * i, &bits, 4);
    }
  }
}

// Reads values.size() floats; bytes.size() must be 4 * values.size().
inline void ReadFloats(std::string_view bytes, std::span<float> values) {
  if (values.empty()) return;
  std::memcpy(values.data(), bytes.data(), values.size_bytes());
  if constexpr (std::endian::native == std::endian::big) {
    for (float& value : values) value = std::bit_cast<float>(LittleEndian32(std::bit_cast<std::uint32_t>(value)));
  }
}

}  // namespace ckn
