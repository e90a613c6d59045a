#include "server/image/encode_png.h"

#include <png.h>

#include "absl/strings/str_cat.h"

namespace ckn {

absl::StatusOr<std::string> EncodePng(const ImageU8& image) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.height = static_cast<png_uint_32>(image.height);
  png.width = static_cast<png_uint_32>(image.width);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const auto failed = [&png] { return absl::InternalError(absl::StrCat("cannot encode as PNG: ", png.message)); };
  // An upper bound first, so that the picture is compressed only once.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string file(size, '\0');
  if (png_image_write_to_memory(&png, file.data(), &size, 0, image.pixels.data(), 0, nullptr) == 0) return failed();
  file.resize(size);
  return file;
}

}  // namespace ckn
