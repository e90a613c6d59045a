#include "server/ckn/packed_layer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "server/simd/bfloat16.h"
#include "server/simd/target.h"
#include "server/simd/winograd.h"

namespace ckn {
namespace {

// Tiles add to each activation's exponent an error in proportion to 1 / sigma^2. Those of 3x3 patches give each patch a
// sum of its own pixels alone; in those of 2x2 patches the others cancel, to the last bits of the largest one: with a
// smaller sigma, faint patches of an image that is like no filter would show it.
constexpr float MinTileSigma(int patch_size) { return patch_size == 2 ? 0.4F : 0.2F; }

// Tiles are worth their transforms in layers of some size, if they save a fifth of the products; and if the bank, which
// they make larger, is read for several of them at a time or stays in the second-level cache.
constexpr int kMinTileChannels = 8, kMinTileFilters = 32;
constexpr double kMostTileProducts = 0.8;
constexpr int kMinTiles = 10;
constexpr double kSmallBankFloats = 1 << 17;
// Whether tiles that are filled up are worth it: AMX takes about eight times as many products a cycle as AVX512_BF16.
constexpr int kMostFilling = 3;
// 2 to this is 0; stands for log2(0) of a filter with eta = 0.
constexpr float kLog2Zero = -1e30F;

PatchSource SourceOf(const Layer& layer, const MapShape& below, Precision precision) {
  if (layer.subtract_patch_mean || layer.whitening.size() > 0) return PatchSource::kCopy;
  // The transforms of rounded numbers would need rounding again.
  const int side = TileOutputs(layer.patch_size);
  if (precision != Precision::kFloat32 || side == 0 || layer.sigma < MinTileSigma(layer.patch_size) ||
      below.channels < kMinTileChannels || layer.filter_count() < kMinTileFilters) {
    return PatchSource::kMap;
  }
  const int rows = ActivationSize(below.height, layer.patch_size),
            columns = ActivationSize(below.width, layer.patch_size);
  const TileGrid grid(side, rows, columns, below.channels);
  const double tiles = static_cast<double>(grid.rows) * grid.columns, patches = static_cast<double>(rows) * columns;
  const bool saves = kTilePositions * tiles <= kMostTileProducts * patches * layer.patch_size * layer.patch_size;
  const double bank = static_cast<double>(kTilePositions) * below.channels * layer.filter_count();
  return saves && (tiles >= kMinTiles || bank <= kSmallBankFloats) ? PatchSource::kTiles : PatchSource::kMap;
}

// Elements of a patch that are neighbours in memory, and the floats from one such run to the next.
struct Runs {
  Runs(const Layer& layer, const MapShape& below, PatchSource source)
      : length(layer.patch_size * below.channels),
        stride(static_cast<std::size_t>(source == PatchSource::kMap ? below.width : layer.patch_size) *
               static_cast<std::size_t>(below.channels)) {
    if (source == PatchSource::kCopy) length = layer.patch_dim();
  }
  int length;
  std::size_t stride;
};

Bfloat16Unit UnitOf(int run) {
  const Bfloat16Unit unit = ChosenBfloat16Unit();
  const int pairs = (run + 1) / 2, tiles = (pairs + kTilePairs - 1) / kTilePairs;
  const bool filled = tiles * static_cast<int>(kTilePairs) > kMostFilling * pairs;
  return filled ? std::min(unit, Bfloat16Unit::kAvx512) : unit;
}

int PairsPerRun(int run, Bfloat16Unit unit) {
  const int pairs = (run + 1) / 2, tile = unit == Bfloat16Unit::kAmx ? static_cast<int>(kTilePairs) : 1;
  return (pairs + tile - 1) / tile * tile;
}

// PatchRows::elements of a layer.
std::vector<std::size_t> ElementOffsets(const Layer& layer, const Runs& runs, PatchSource source) {
  std::vector<std::size_t> offsets(source == PatchSource::kTiles ? layer.in_channels : layer.patch_dim());
  const auto length = static_cast<std::size_t>(runs.length);
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = i / length * runs.stride + i % length;
  return offsets;
}

std::vector<std::size_t> PairOffsets(const Layer& layer, const Runs& runs, int pairs_per_run) {
  std::vector<std::size_t> offsets(static_cast<std::size_t>(layer.patch_dim() / runs.length * pairs_per_run));
  const auto pairs = static_cast<std::size_t>(pairs_per_run);
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = i / pairs * runs.stride + 2 * (i % pairs);
  return offsets;
}

}  // namespace

PackedLayer PackLayer(const Layer& layer, const MapShape& below, Precision precision) {
  PackedLayer packed;
  packed.source = SourceOf(layer, below, precision);
  const Runs runs(layer, below, packed.source);
  Filters filters{layer.filters, Eigen::VectorXf(layer.filter_count()), Eigen::VectorXf(layer.filter_count())};
  if (precision == Precision::kBfloat16) {
    packed.unit = UnitOf(runs.length);
    float* const weights = filters.weights.data();
    RoundToBfloat16(weights, static_cast<std::size_t>(filters.weights.size()), weights);
  }
  // In double: the terms nearly cancel.
  const double a = std::numbers::log2e / (static_cast<double>(layer.sigma) * layer.sigma);
  packed.a = static_cast<float>(a);
  for (int l = 0; l < layer.filter_count(); ++l) {
    const double norm_squared = filters.weights.row(l).cast<double>().squaredNorm();
    const bool dead = !(layer.eta[l] > 0);
    const double half_log = dead ? 0 : 0.5 * std::log2(layer.eta[l]);
    filters.bias[l] = dead ? kLog2Zero : static_cast<float>(-(1 + norm_squared) * a + half_log);
    filters.limit[l] = static_cast<float>(half_log);
  }
  if (packed.unit != Bfloat16Unit::kNone) {
    const int pairs = PairsPerRun(runs.length, packed.unit);
    packed.elements = PairOffsets(layer, runs, pairs);
    packed.bank = FilterBank::OfPairs(filters, runs.length, pairs);
  } else {
    packed.elements = ElementOffsets(layer, runs, packed.source);
    packed.bank =
        packed.source == PatchSource::kTiles ? FilterBank::OfTiles(filters, layer.patch_size) : FilterBank(filters);
  }
  const double beta = layer.subsampling;
  // The constant sqrt(2 / pi) of eq. (xi) is applied once, with the horizontal and the vertical filter half each.
  const double half_constant = std::pow(2 / std::numbers::pi, 0.25);
  for (int d = -layer.pooling_radius; d <= layer.pooling_radius; ++d) {
    packed.pooling.push_back(static_cast<float>(half_constant * std::exp(-(d / beta) * (d / beta))));
  }
  return packed;
}

}  // namespace ckn
