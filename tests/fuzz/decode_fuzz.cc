// Image files of all formats, as clients send them, up to the map that a network sees.
#include <zlib.h>

#include <string>

#include "server/image/decode.h"
#include "server/image/preprocess.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using ckn::testing::AsBytes;
using ckn::testing::CheckErrorMessage;
using ckn::testing::FuzzInput;

constexpr ckn::DecodeLimits kLimits{.max_pixels = 1 << 14};

void CheckMap(const ckn::ImageU8& image, const ckn::InputSpec& spec) {
  const absl::StatusOr<ckn::FeatureMap> map = ckn::Preprocess(image, spec);
  CKN_FUZZ_CHECK(map.ok(), map.status().ToString());
  CKN_FUZZ_CHECK(map->height == spec.height && map->width == spec.width && map->channels == spec.MapChannels(), "");
  for (const float value : map->values) CKN_FUZZ_CHECK(value >= -1 && value <= 1, value);
}

// A PNG file with the checksums that its chunks should have, which no fuzzer finds by itself.
std::string WithChecksums(std::string_view file) {
  std::string out(file);
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(out[at]); };
  for (std::size_t at = 8; out.size() - at >= 12;) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | byte(at + i);
    if (length > out.size() - at - 12) break;
    const auto* const type = reinterpret_cast<const Bytef*>(out.data() + at + 4);
    const uLong crc = crc32(0, type, static_cast<uInt>(length + 4));
    for (std::size_t i = 0; i < 4; ++i) out[at + 8 + length + i] = static_cast<char>(crc >> (24 - 8 * i) & 0xFF);
    at += length + 12;
  }
  return out;
}

void CheckDecode(std::string_view file) {
  const absl::StatusOr<ckn::ImageU8> image = ckn::Decode(AsBytes(file), kLimits);
  if (!image.ok()) {
    CKN_FUZZ_CHECK(absl::IsInvalidArgument(image.status()), image.status().ToString());
    return CheckErrorMessage(image.status());
  }
  CKN_FUZZ_CHECK(image->height >= 1 && image->width >= 1, "");
  const std::int64_t pixels = std::int64_t{image->height} * image->width;
  CKN_FUZZ_CHECK(pixels <= kLimits.max_pixels, pixels);
  CKN_FUZZ_CHECK(image->channels == 1 || image->channels == 3, image->channels);
  CKN_FUZZ_CHECK(image->pixels.size() == static_cast<std::size_t>(pixels * image->channels), image->pixels.size());
  CheckMap(*image, {.height = 5, .width = 4, .channels = 3, .resize = ckn::ResizePolicy::kStretch});
  CheckMap(*image, {.height = image->height, .width = image->width, .channels = 1, .map = ckn::InputMap::kGradient});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::string_view file = input.Rest();
  CheckDecode(file);
  if (file.substr(0, 4) == "\x89PNG" && file.size() > 8) CheckDecode(WithChecksums(file));
  return 0;
}
