#include "server/ckn/encoder.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "server/base/helpers.h"
#include "server/base/status.h"
#include "server/ckn/packed_layer.h"
#include "server/ckn/patch.h"
#include "server/simd/activate_and_pool.h"
#include "server/simd/bfloat16.h"
#include "server/simd/bfloat16_product.h"
#include "server/simd/gemm.h"
#include "server/simd/patch_norms.h"
#include "server/simd/winograd.h"

namespace ckn {

// Sums over all patches of a layer, of ||psi||^2 and ||zeta||^2.
struct Encoder::Energy {
  double patches = 0;
  double activations = 0;
};

namespace {

// Patches that must be changed before the product are copied out, this many floats at a time.
constexpr std::size_t kCopiedFloats = std::size_t{1} << 16;
// Of a map whose patches are read where they lie, or of transformed tiles.
constexpr std::size_t kMapFloats = std::size_t{1} << 17;
constexpr int kMinBandTiles = 16;

// What an exponential and its pooling cost, in operations of the product.
constexpr double kExponentialOperations = 30;
// Layers that take less than about 200 us are not worth the waking of another thread: with 3e6 in place of this, a lone
// image of CKN-PM1 and CKN-PM2 took 1.4 times as long on two threads as on one.
constexpr double kMinSharedOperations = 3e7;
// A network that has such a layer keeps others awake, who then help with smaller ones, too.
constexpr double kMinAwakeOperations = 2e6;

// What a thread keeps from image to image, so that encoding asks for no memory once it has run.
struct Workspace {
  FeatureMap maps[2];  // of the layers, by turns
  FeatureMap rounded;
  std::vector<std::uint16_t> bfloat16;
  std::vector<float> slopes, offsets, norms;
  std::vector<float> patches, whitened;
  std::vector<double> energies;  // of blocks
  AlignedFloats squares, tile, tiles, block;
};

Workspace& ThreadWorkspace() {
  thread_local Workspace workspace;
  return workspace;
}

double Operations(const Layer& layer, double patches) {
  return patches * layer.filter_count() * (2.0 * layer.patch_dim() + kExponentialOperations);
}

double Operations(const Layer& layer, const MapShape& below) {
  const double rows = ActivationSize(below.height, layer.patch_size);
  return Operations(layer, rows * ActivationSize(below.width, layer.patch_size));
}

// Rounded numbers, and zeros for what the kernels read behind the last patch.
void Pack(const float* rounded, std::size_t count, std::size_t patch_stride, std::vector<std::uint16_t>& out) {
  out.resize(count + kTilePatches * patch_stride + 2 * kTilePairs);
  PackBfloat16(rounded, count, out.data());
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(count), out.end(), std::uint16_t{0});
}

// Rows of patches at a time: large images do not leave the second-level cache between the blocks of filters.
int BandRows(const Layer& layer, PatchSource source, const FeatureMap& map) {
  const int rows = ActivationSize(map.height, layer.patch_size), columns = ActivationSize(map.width, layer.patch_size);
  std::size_t most = kMapFloats, unit_floats = static_cast<std::size_t>(map.width) * map.channels;
  int unit = 1, least = 1;  // rows, units
  if (source == PatchSource::kCopy) {
    most = kCopiedFloats;
    unit_floats = static_cast<std::size_t>(columns) * layer.patch_dim();
  } else if (source == PatchSource::kTiles) {
    unit = TileOutputs(layer.patch_size);
    const TileGrid row(unit, unit, columns, map.channels);
    unit_floats = row.size();
    // For less, each block of filters would be read too often.
    least = (kMinBandTiles + row.columns - 1) / row.columns;
  }
  const int units = (rows + unit - 1) / unit;
  return unit * std::min(units, std::max(least, static_cast<int>(most / unit_floats)));
}

// body(i) for each i in [0, count); `helpers` may be nullptr.
void ForEach(Helpers* helpers, std::size_t count, absl::FunctionRef<void(std::size_t i)> body) {
  if (helpers != nullptr) return helpers->Share(count, body);
  for (std::size_t i = 0; i < count; ++i) body(i);
}

void Reshape(FeatureMap& map, const MapShape& shape) {
  map.height = shape.height;
  map.width = shape.width;
  map.channels = shape.channels;
  map.values.assign(static_cast<std::size_t>(shape.height) * shape.width * shape.channels, 0.0F);
}

}  // namespace

absl::StatusOr<Encoder> Encoder::Create(std::vector<Layer> layers, const MapShape& input, Precision precision) {
  if (layers.empty()) return absl::InvalidArgumentError("layers: got none, expected at least one");
  Encoder encoder;
  encoder.precision_ = precision;
  encoder.shapes_.push_back(input);
  bool shared = false;
  std::size_t most_blocks = 0;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const Layer& layer = layers[k];
    const std::string where = absl::StrCat("layer ", k + 1);
    if (absl::Status status = ValidateLayer(layer); !status.ok()) return Annotate(status, where);
    const absl::StatusOr<MapShape> shape = OutputShape(layer, encoder.shapes_.back());
    if (!shape.ok()) return Annotate(shape.status(), where);
    encoder.shapes_.push_back(*shape);

    const MapShape& below = encoder.shapes_[k];
    encoder.packed_.push_back(std::make_shared<const PackedLayer>(PackLayer(layer, below, precision)));
    if (Operations(layer, below) > kMinSharedOperations) shared = true;
    most_blocks = std::max(most_blocks, encoder.packed_.back()->bank.blocks().size());
  }
  if (shared) encoder.most_helpers_ = most_blocks - 1;
  encoder.layers_ = std::move(layers);
  return encoder;
}

int Encoder::feature_count() const {
  const MapShape& last = shapes_.back();
  return last.height * last.width * last.channels;
}

double Encoder::operations() const {
  double sum = 0;
  for (std::size_t k = 0; k < layers_.size(); ++k) sum += Operations(layers_[k], shapes_[k]);
  return sum;
}

FeatureMap Encoder::EncodeMap(const FeatureMap& input) const {
  FeatureMap map(output_shape().height, output_shape().width, output_shape().channels);
  Encode(input, map.values);
  return map;
}

// Patches of a layer that are copied out, centred and whitened as it wants them, and their norms.
void Encoder::CopyPatches(std::size_t k, const FeatureMap& map, const PatchRows& rows, Helpers* helpers) const {
  Workspace& work = ThreadWorkspace();
  const Layer& layer = layers_[k];
  const auto dim = static_cast<std::size_t>(layer.patch_dim());
  const auto columns = static_cast<std::size_t>(rows.columns);
  const std::size_t count = static_cast<std::size_t>(rows.rows) * columns;
  work.patches.resize(count * dim);
  ForEach(helpers, static_cast<std::size_t>(rows.rows), [&](std::size_t row) {
    for (std::size_t x = 0; x < columns; ++x) {
      const std::size_t i = row * columns + x;
      work.norms[i] = ExtractPatch(map, rows.first_row + static_cast<int>(row), static_cast<int>(x), layer.patch_size,
                                   layer.subtract_patch_mean, work.patches.data() + i * dim);
    }
  });
  const bool whitened = layer.whitening.size() > 0, rounded = precision_ == Precision::kBfloat16;
  if (whitened) {
    const auto size = static_cast<std::int64_t>(dim);
    work.whitened.resize(count * dim);
    Gemm(Op::kNone, Op::kNone, static_cast<std::int64_t>(count), size, size, 1, work.patches.data(), size,
         layer.whitening.data(), size, 0, work.whitened.data(), size);
    work.patches.swap(work.whitened);
  }
  if (rounded) RoundToBfloat16(work.patches.data(), count * dim, work.patches.data());
  if (!whitened && !rounded) return;
  for (std::size_t i = 0; i < count; ++i) work.norms[i] = Norm(work.patches.data() + i * dim, dim);
}

// What the products of these rows of patches read, and what their activations need besides.
void Encoder::Prepare(std::size_t k, const FeatureMap& map, Helpers* helpers, PatchRows& rows) const {
  Workspace& work = ThreadWorkspace();
  const Layer& layer = layers_[k];
  const PackedLayer& packed = *packed_[k];
  const std::size_t count = static_cast<std::size_t>(rows.rows) * static_cast<std::size_t>(rows.columns);
  std::size_t places = count;  // in memory, of a patch or of where one begins
  if (packed.source == PatchSource::kCopy) {
    CopyPatches(k, map, rows, helpers);
    rows.patches = work.patches.data();
  } else {
    const int map_rows = rows.rows + layer.patch_size - 1;
    places = static_cast<std::size_t>(map_rows) * static_cast<std::size_t>(map.width);
    rows.patches = map.At(rows.first_row, 0);
    PatchNorms(rows.patches, map_rows, map.width, map.channels, layer.patch_size, work.squares, work.norms.data());
  }
  if (packed.unit != Bfloat16Unit::kNone) {
    Pack(rows.patches, places * rows.patch_stride, rows.patch_stride, work.bfloat16);
    rows.bfloat16 = work.bfloat16.data();
    rows.unit = packed.unit;
  }
  if (packed.source == PatchSource::kTiles) {
    const int side = TileOutputs(layer.patch_size);
    rows.grid = TileGrid(side, rows.rows, rows.columns, map.channels);
    work.tiles.Reserve(rows.grid.size());
    rows.tiles = work.tiles.data();
    ForEach(helpers, static_cast<std::size_t>(rows.grid.rows), [&](std::size_t row) {
      TransformTiles(map, rows.first_row / side, rows.grid, static_cast<int>(row), ThreadWorkspace().tile,
                     work.tiles.data());
    });
  }
  FoldNorms(packed.a, layer.epsilon, work.norms.data(), count, work.slopes.data(), work.offsets.data());
  rows.slope = work.slopes.data();
  rows.offset = work.offsets.data();
  rows.norm = work.norms.data();
}

// One layer, xi_{k-1} -> xi_k; `out` has the shape of the result and is 0.
void Encoder::EncodeLayer(std::size_t k, const FeatureMap& map, FeatureMap& out, Energy* energy) const {
  Workspace& work = ThreadWorkspace();
  const Layer& layer = layers_[k];
  const PackedLayer& packed = *packed_[k];
  const bool copied = packed.source == PatchSource::kCopy;
  const int rows = ActivationSize(map.height, layer.patch_size);
  PatchRows patches;
  patches.columns = ActivationSize(map.width, layer.patch_size);
  const auto columns = static_cast<std::size_t>(patches.columns);
  patches.elements = packed.elements;
  patches.patch_stride = static_cast<std::size_t>(copied ? layer.patch_dim() : map.channels);
  patches.row_stride = patches.patch_stride * static_cast<std::size_t>(copied ? patches.columns : map.width);
  const PoolingAxis vertical{out.height, layer.subsampling, layer.pooling_radius, packed.pooling.data()};
  const PoolingAxis horizontal{out.width, layer.subsampling, layer.pooling_radius, packed.pooling.data()};

  const int band = BandRows(layer, packed.source, map);
  for (std::vector<float>* const values : {&work.norms, &work.slopes, &work.offsets}) {
    values->resize(static_cast<std::size_t>(band) * columns + kPatchSlack);
  }
  for (int first = 0; first < rows; first += band) {
    patches.first_row = first;
    patches.rows = std::min(band, rows - first);
    const std::size_t count = static_cast<std::size_t>(patches.rows) * columns;
    const bool shared = most_helpers_ > 0 && Operations(layer, static_cast<double>(count)) > kMinAwakeOperations;
    Helpers* const helpers = shared ? Helpers::OfThisThread() : nullptr;
    Prepare(k, map, helpers, patches);
    const std::span<const FilterBank::Block> blocks = packed.bank.blocks();
    work.energies.assign(blocks.size(), 0);
    ForEach(helpers, blocks.size(), [&](std::size_t i) {
      ActivateAndPool(packed.bank, blocks[i], patches, vertical, horizontal, out.channels, ThreadWorkspace().block,
                      out.values.data(), energy == nullptr ? nullptr : &work.energies[i]);
    });
    for (const double of_block : work.energies) {
      if (energy != nullptr) energy->activations += of_block;
    }
    if (energy != nullptr) energy->patches += static_cast<double>(SquaredNorm(work.norms.data(), count));
  }
}

void Encoder::Encode(const FeatureMap& input, std::span<float> out, float* residual) const {
  assert(static_cast<int>(out.size()) == feature_count());
  assert((MapShape{input.height, input.width, input.channels} == shapes_.front()));
  assert(residual == nullptr || has_residual());
  const Helpers::Attention attention(most_helpers_ > 0 ? Helpers::OfThisThread() : nullptr, most_helpers_);
  Workspace& work = ThreadWorkspace();
  const FeatureMap* map = &input;
  for (std::size_t k = 0; k < layers_.size(); ++k) {
    FeatureMap& next = work.maps[map == &work.maps[0] ? 1 : 0];
    Reshape(next, shapes_[k + 1]);
    Energy energy;
    const bool measured = residual != nullptr && k + 1 == layers_.size();
    // Patches that are copied out are rounded once they are.
    const bool rounded = precision_ == Precision::kBfloat16 && packed_[k]->source != PatchSource::kCopy;
    if (rounded) {
      Reshape(work.rounded, shapes_[k]);
      RoundToBfloat16(map->values.data(), map->values.size(), work.rounded.values.data());
    }
    EncodeLayer(k, rounded ? work.rounded : *map, next, measured ? &energy : nullptr);
    if (measured) {
      *residual = energy.patches > 0 ? static_cast<float>(1 - energy.activations / energy.patches) : 1.0F;
    }
    map = &next;
    const RowMatrixF& projection = layers_[k].projection;
    if (projection.size() == 0) continue;
    // After pooling, since both are linear and pooling leaves fewer places.
    FeatureMap& projected = work.maps[map == &work.maps[0] ? 1 : 0];
    Reshape(projected, shapes_[k + 1]);
    const std::int64_t p = projection.rows();
    Gemm(Op::kNone, Op::kNone, static_cast<std::int64_t>(next.height) * next.width, p, p, 1, next.values.data(), p,
         projection.data(), p, 0, projected.values.data(), p);
    map = &projected;
  }
  std::copy(map->values.begin(), map->values.end(), out.begin());
}

}  // namespace ckn
