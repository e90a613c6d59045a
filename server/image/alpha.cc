#include <cstddef>
#include <cstdint>

#include "server/image/codecs.h"

namespace ckn {
namespace {

// value * alpha / 255, rounded.
constexpr std::uint8_t OverBlack(unsigned value, unsigned alpha) {
  return static_cast<std::uint8_t>((value * alpha + 127) / 255);
}

// Replaces each pixel's colours by convert(colour, alpha) and removes its alpha, if it has one.
template <typename Convert>
void RemoveAlpha(ImageU8& image, const Convert& convert) {
  if (image.channels != 2 && image.channels != 4) return;
  const auto channels = static_cast<std::size_t>(image.channels);
  std::uint8_t* out = image.pixels.data();
  for (std::size_t pixel = 0; pixel < image.pixels.size(); pixel += channels) {
    const std::uint8_t alpha = image.pixels[pixel + channels - 1];
    for (std::size_t c = 0; c + 1 < channels; ++c) *out++ = convert(image.pixels[pixel + c], alpha);
  }
  image.pixels.resize(image.pixels.size() / channels * (channels - 1));
  --image.channels;
}

}  // namespace

void ComposeOverBlack(ImageU8& image) { RemoveAlpha(image, OverBlack); }

void DropAlpha(ImageU8& image) {
  RemoveAlpha(image, [](std::uint8_t value, std::uint8_t) { return value; });
}

}  // namespace ckn
