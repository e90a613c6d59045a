#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

namespace ckn {

// A dense map [height][width][channels], channel fastest: the input map xi_0 and every map xi_k of the network.
struct FeatureMap {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<float> values;

  FeatureMap() = default;
  FeatureMap(int h, int w, int c) : height(h), width(w), channels(c), values(static_cast<std::size_t>(h) * w * c) {}

  [[nodiscard]] float* At(int y, int x) {
    assert(y >= 0 && y < height && x >= 0 && x < width);
    return values.data() + (static_cast<std::size_t>(y) * width + x) * channels;
  }
  [[nodiscard]] const float* At(int y, int x) const {
    assert(y >= 0 && y < height && x >= 0 && x < width);
    return values.data() + (static_cast<std::size_t>(y) * width + x) * channels;
  }
};

}  // namespace ckn
