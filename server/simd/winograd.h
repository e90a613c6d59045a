#pragma once

#include <array>
#include <cstddef>

#include "server/base/feature_map.h"
#include "server/simd/aligned_floats.h"

// Winograd's minimal filtering (Lavin and Gray, "Fast algorithms for convolutional neural networks", 2015): tiles of
// 4x4 pixels and filters are transformed so that the products of one patch after another become products of 16
// independent positions. For 2x2 patches a tile has 3x3 of them and takes 16 products a channel in place of 36, for 3x3
// patches 2x2, and 16 in place of 36, too. Both rest on the points 0, 1, -1 and infinity: tiles are transformed alike,
// and no factor is larger than 1.
namespace ckn {

inline constexpr int kTileSize = 4;
inline constexpr int kTilePositions = kTileSize * kTileSize;

// Patches along a side of a tile, for patches of this size; 0: there is no such transform.
constexpr int TileOutputs(int patch_size) {
  return patch_size == 2 || patch_size == 3 ? kTileSize + 1 - patch_size : 0;
}

// G g G^T of one channel of a filter, g [patch_size][patch_size] with `stride` floats from one element to the next.
std::array<float, kTilePositions> TransformFilter(const float* filter, std::ptrdiff_t stride, int patch_size);

// Where the tiles of a band of rows lie: [kTilePositions][rows][columns][channels], and some floats between positions.
struct TileGrid {
  TileGrid() = default;  // no tiles
  // For `patch_rows` x `patch_columns` patches, `side` of them along a side of a tile.
  TileGrid(int side, int patch_rows, int patch_columns, int map_channels);
  int outputs = 0;            // patches along a side of a tile
  int rows = 0, columns = 0;  // of tiles
  int channels = 0;
  std::size_t position_stride = 0;  // floats
  [[nodiscard]] std::size_t size() const { return kTilePositions * position_stride; }
};

// B^T d B of the tiles d of this map, channel by channel: row `row` of the grid, whose first row is row `first_row` of
// the map's tiles. What of a tile lies outside the map is 0. out [grid.size()]; `scratch` grows to one tile.
void TransformTiles(const FeatureMap& map, int first_row, const TileGrid& grid, int row, AlignedFloats& scratch,
                    float* out);

}  // namespace ckn
