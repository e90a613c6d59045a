#pragma once

#include <cstdint>
#include <vector>

namespace ckn {

// A decoded picture: uint8 [height][width][channels], channel fastest; channels is 1 (gray) or 3 (R, G, B).
struct ImageU8 {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> pixels;
};

}  // namespace ckn
