#pragma once

#include <string>
#include <vector>

namespace ckn {

// A library behind Decode(). Another version of one may give other pixels, above all for JPEG and WebP files.
struct DecoderVersion {
  std::string library, version;
};

// Of the libraries in use, by name.
std::vector<DecoderVersion> DecoderVersions();

// "libjpeg-turbo 2.1.5, libpng 1.6.39, ..."
std::string DecoderVersionsText();

}  // namespace ckn
