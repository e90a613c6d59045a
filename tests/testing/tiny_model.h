#pragma once

#include <cstdint>
#include <string>

#include "server/store/model.h"

namespace ckn::testing {

struct TinyModelOptions {
  std::string name = "tiny";
  int height = 8;  // at least 3
  int width = 8;   // at least 3
  int channels = 1;
  int filters = 4;
  int classes = 3;  // at least 2
  std::uint64_t seed = 1;
};

// A valid model of one layer (patches of 3 x 3, subsampling 2, pixel map) with arbitrary but always equal weights: the
// same options give the same model on every machine. It has learned nothing; classes are named "class 0", "class 1",
// ...
Model TinyModel(const TinyModelOptions& options = {});

// An image of the model's size whose pixels depend on `seed` only.
ImageU8 TinyImage(const Model& model, std::uint64_t seed);

// The image as a binary PGM (gray) or PPM (colour) file.
std::string EncodePnm(const ImageU8& image);

}  // namespace ckn::testing
