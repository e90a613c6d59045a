#include <webp/decode.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "server/image/codecs.h"

namespace ckn {

absl::StatusOr<ImageU8> DecodeWebp(std::span<const std::byte> file, const FileHeader& header) {
  const absl::Status broken = absl::InvalidArgumentError("WebP: broken or cut off");
  const auto* const data = reinterpret_cast<const std::uint8_t*>(file.data());
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return absl::InternalError("WebP: the library is of another version");
  if (WebPGetFeatures(data, file.size(), &config.input) != VP8_STATUS_OK) return broken;
  // The header was read here and by the library; a file on which the two differ is not one to trust.
  if (config.input.width != header.width || config.input.height != header.height || config.input.has_animation != 0) {
    return broken;
  }
  ImageU8 image;
  image.height = config.input.height;
  image.width = config.input.width;
  image.channels = config.input.has_alpha != 0 ? 4 : 3;
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * image.channels;
  image.pixels.resize(row_bytes * static_cast<std::size_t>(image.height));
  config.output.colorspace = image.channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {
      .rgba = image.pixels.data(), .stride = static_cast<int>(row_bytes), .size = image.pixels.size()};
  const VP8StatusCode status = WebPDecode(data, file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status == VP8_STATUS_OUT_OF_MEMORY) return absl::ResourceExhaustedError("WebP: no memory to decode it");
  if (status != VP8_STATUS_OK) return broken;
  ComposeOverBlack(image);
  return image;
}

}  // namespace ckn
