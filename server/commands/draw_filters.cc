#include "server/commands/draw_filters.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ckn {
namespace {

// Columns of a roughly square grid of n cells.
int Columns(int n) { return std::max(1, static_cast<int>(std::ceil(std::sqrt(static_cast<double>(n))))); }

std::uint8_t Gray(float value, float low, float high) {
  if (!(high > low)) return 128;
  return static_cast<std::uint8_t>(std::lround(255 * (value - low) / (high - low)));
}

}  // namespace

ImageU8 DrawFilters(const Layer& layer) {
  constexpr int kGap = 4;                    // pixels between filters
  constexpr int kTileGap = 1;                // between the channels of one filter
  constexpr std::uint8_t kBackground = 112;  // apart from black and white
  const int m = layer.patch_size;
  const int colours = layer.in_channels == 3 ? 3 : 1;
  const int tiles = layer.in_channels / colours;
  const int tile_columns = Columns(tiles);
  const int tile_rows = (tiles + tile_columns - 1) / tile_columns;
  // A filter becomes about 48 pixels wide, a patch pixel at least 6.
  const int zoom = std::max(6, 48 / (m * tile_columns));
  const int tile = m * zoom;
  const int cell_width = tile_columns * (tile + kTileGap) - kTileGap;
  const int cell_height = tile_rows * (tile + kTileGap) - kTileGap;
  const int count = layer.filter_count();
  const int columns = Columns(count);
  const int rows = (count + columns - 1) / columns;

  ImageU8 image;
  image.width = columns * (cell_width + kGap) + kGap;
  image.height = rows * (cell_height + kGap) + kGap;
  image.channels = colours;
  image.pixels.assign(static_cast<std::size_t>(image.width) * image.height * colours, kBackground);

  std::vector<int> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return layer.eta[a] > layer.eta[b]; });
  for (int i = 0; i < count; ++i) {
    const auto filter = layer.filters.row(order[static_cast<std::size_t>(i)]);
    const float low = filter.minCoeff();
    const float high = filter.maxCoeff();
    const int left = kGap + i % columns * (cell_width + kGap);
    const int top = kGap + i / columns * (cell_height + kGap);
    for (int t = 0; t < tiles; ++t) {
      const int tile_left = left + t % tile_columns * (tile + kTileGap);
      const int tile_top = top + t / tile_columns * (tile + kTileGap);
      for (int y = 0; y < tile; ++y) {
        for (int x = 0; x < tile; ++x) {
          const std::size_t pixel = static_cast<std::size_t>(tile_top + y) * image.width + tile_left + x;
          for (int c = 0; c < colours; ++c) {
            const int weight = (y / zoom * m + x / zoom) * layer.in_channels + t * colours + c;
            image.pixels[pixel * colours + c] = Gray(filter[weight], low, high);
          }
        }
      }
    }
  }
  return image;
}

}  // namespace ckn
