#include "server/training/patch_pairs.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/ckn/layer.h"
#include "server/ckn/patch.h"
#include "server/training/random.h"

namespace ckn {
namespace {

// Draws per wanted patch before an image counts as exhausted (an almost blank image).
constexpr int kDrawsPerPatch = 50;
constexpr std::uint64_t kPairingStream = 1'000'000;

}  // namespace

absl::StatusOr<PatchPairs> SamplePatchPairs(std::size_t images,
                                            const std::function<FeatureMap(std::size_t i, int worker)>& map_of,
                                            const PatchSampling& sampling, ThreadPool& pool, const Progress& progress) {
  const std::size_t wanted = 2 * static_cast<std::size_t>(sampling.pairs);
  // Some more from each image, so that a few blank ones do not leave the total short.
  const std::size_t per_image = std::max<std::size_t>(1, (wanted + wanted / 20) / std::max<std::size_t>(images, 1) + 1);

  // When there are more images than patches wanted, a random part of the images is enough.
  std::vector<std::size_t> order(images);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Rng rng = MakeRng(sampling.seed, sampling.stream, kPairingStream);
  Shuffle(rng, order);
  order.resize(std::min(order.size(), (wanted + wanted / 20) / per_image + 1));

  std::vector<std::vector<float>> found(order.size());
  std::atomic<int> dim{0};
  pool.ParallelFor(order.size(), [&](std::size_t i, int worker) {
    if (progress.stopped()) return;
    const FeatureMap map = map_of(order[i], worker);
    const int rows = ActivationSize(map.height, sampling.patch_size);
    const int cols = ActivationSize(map.width, sampling.patch_size);
    const int patch_dim = sampling.patch_size * sampling.patch_size * map.channels;
    dim.store(patch_dim, std::memory_order_relaxed);
    Rng image_rng = MakeRng(sampling.seed, sampling.stream, order[i]);
    std::vector<float> patch(patch_dim);
    std::vector<float>& out = found[i];
    out.reserve(per_image * patch_dim);
    for (std::size_t draw = 0; draw < per_image * kDrawsPerPatch && out.size() < per_image * patch_dim; ++draw) {
      const int y = static_cast<int>(UniformIndex(image_rng, rows));
      const int x = static_cast<int>(UniformIndex(image_rng, cols));
      const float norm = ExtractPatch(map, y, x, sampling.patch_size, sampling.subtract_mean, patch.data());
      if (norm <= sampling.min_norm) continue;
      for (const float value : patch) out.push_back(value / norm);
    }
  });
  if (progress.stopped()) return StoppedError();

  struct Position {
    std::uint32_t image;
    std::uint32_t patch;
  };
  std::vector<Position> positions;
  for (std::uint32_t i = 0; i < found.size(); ++i) {
    const std::size_t count = dim == 0 ? 0 : found[i].size() / dim;
    for (std::uint32_t j = 0; j < count; ++j) positions.push_back({i, j});
  }
  if (positions.size() < wanted) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%dx%d patches with a norm above %g: got %d from %d images, expected at least %d for %d pairs",
        sampling.patch_size, sampling.patch_size, sampling.min_norm, positions.size(), images, wanted, sampling.pairs));
  }
  Shuffle(rng, positions);

  PatchPairs pairs;
  pairs.x.resize(sampling.pairs, dim);
  pairs.y.resize(sampling.pairs, dim);
  for (std::size_t i = 0; i < wanted; ++i) {
    RowMatrixF& side = i % 2 == 0 ? pairs.x : pairs.y;
    const float* source = found[positions[i].image].data() + static_cast<std::size_t>(positions[i].patch) * dim;
    std::copy_n(source, dim.load(), side.row(static_cast<Eigen::Index>(i / 2)).data());
  }
  return pairs;
}

double DistanceQuantile(const PatchPairs& pairs, double q) {
  std::vector<float> distances(pairs.size());
  for (Eigen::Index i = 0; i < pairs.size(); ++i) distances[i] = (pairs.x.row(i) - pairs.y.row(i)).norm();
  const auto rank = static_cast<std::ptrdiff_t>(q * static_cast<double>(distances.size() - 1));
  std::nth_element(distances.begin(), distances.begin() + rank, distances.end());
  return distances[rank];
}

}  // namespace ckn
