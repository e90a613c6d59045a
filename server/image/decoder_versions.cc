#include "server/image/decoder_versions.h"

// The library's header needs the types of stdio.h before it.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on
#include <png.h>
#include <tiffio.h>
#include <webp/decode.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ckn {
namespace {

#define CKN_TEXT_OF(x) #x
#define CKN_VALUE_TEXT(x) CKN_TEXT_OF(x)

// "1.6.39" of 10639.
std::string PngVersion() {
  const unsigned version = png_access_version_number();
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// "4.5.0" of "LIBTIFF, Version 4.5.0\nCopyright ...".
std::string TiffVersion() {
  const std::string text = TIFFGetVersion();
  const std::string line = text.substr(0, text.find('\n'));
  return line.substr(line.rfind(' ') + 1);
}

std::string WebpVersion() {
  const auto version = static_cast<unsigned>(WebPGetDecoderVersion());
  return absl::StrCat(version >> 16U, ".", (version >> 8U) & 0xFFU, ".", version & 0xFFU);
}

}  // namespace

std::vector<DecoderVersion> DecoderVersions() {
  return {// Does not tell at run time; its interface and so its file's name change with what is not compatible.
          {"libjpeg-turbo", CKN_VALUE_TEXT(LIBJPEG_TURBO_VERSION)},
          {"libpng", PngVersion()},
          {"libtiff", TiffVersion()},
          {"libwebp", WebpVersion()}};
}

std::string DecoderVersionsText() {
  return absl::StrJoin(DecoderVersions(), ", ", [](std::string* out, const DecoderVersion& decoder) {
    absl::StrAppend(out, decoder.library, " ", decoder.version);
  });
}

}  // namespace ckn
