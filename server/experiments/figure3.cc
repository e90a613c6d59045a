#include "server/experiments/figure3.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/npy.h"
#include "server/base/regular_file.h"
#include "server/base/resource_usage.h"
#include "server/base/status.h"
#include "server/ckn/patch.h"
#include "server/experiments/results_folder.h"
#include "server/image/decode.h"
#include "server/image/preprocess.h"
#include "server/simd/target.h"
#include "server/training/checkpoint.h"
#include "server/training/random.h"
#include "server/training/whitening.h"

namespace ckn {
namespace {

constexpr std::uint64_t kPatchStream = 6'000'000;
// Patches that are all but constant have no direction.
constexpr float kMinNorm = 1e-3F;
// After so many patches, one in so many must have been of use.
constexpr std::int64_t kEnoughDrawn = 10'000;
constexpr std::int64_t kLeastUsed = 1'000;

absl::StatusOr<FeatureMap> ReadGray(const std::string& path) {
  CKN_ASSIGN_OR_RETURN(const std::string file, ReadWholeFile(path));
  CKN_ASSIGN_OR_RETURN(const ImageU8 image, Decode(std::as_bytes(std::span(file)), DecodeLimits()));
  return Preprocess(image, {.height = image.height, .width = image.width, .channels = 1});
}

// The gray images of a folder, in the order of their names; files that are no images are errors.
absl::StatusOr<std::vector<FeatureMap>> ReadPhotographs(const std::string& folder, int min_side) {
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().native().front() != '.') paths.push_back(it->path().native());
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  if (paths.empty()) return absl::NotFoundError(absl::StrCat(folder, ": no images"));
  std::sort(paths.begin(), paths.end());
  std::vector<FeatureMap> photographs;
  for (const std::string& path : paths) {
    absl::StatusOr<FeatureMap> map = ReadGray(path);
    CKN_RETURN_IF_ERROR(Annotate(map.status(), path));
    if (map->height < min_side || map->width < min_side) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: got %d x %d pixels, expected at least %d each way", path,
                                                        map->height, map->width, min_side));
    }
    photographs.push_back(*std::move(map));
  }
  return photographs;
}

// Patches at uniform places of uniformly drawn photographs, their mean subtracted: [count][patch_size^2].
// FAILED_PRECONDITION when hardly any place has the contrast.
absl::StatusOr<RowMatrixF> DrawPatches(const std::vector<FeatureMap>& photographs, Eigen::Index count,
                                       const Figure3Options& options) {
  Rng rng = MakeRng(options.seed, kPatchStream);
  const int m = options.patch_size;
  RowMatrixF patches(count, m * m);
  const float min_norm = std::max(kMinNorm, static_cast<float>(options.min_contrast * m));
  std::int64_t drawn = 0;
  for (Eigen::Index i = 0; i < count; ++drawn) {
    if (drawn >= kEnoughDrawn && i < drawn / kLeastUsed) {
      return absl::FailedPreconditionError(
          absl::StrFormat("photographs: %d of %d patches have pixels with a standard deviation of %g or more, expected "
                          "at least one in %d",
                          i, drawn, min_norm / static_cast<float>(m), kLeastUsed));
    }
    const FeatureMap& map = photographs[UniformIndex(rng, photographs.size())];
    const auto place = [&](int side) {
      return options.border +
             static_cast<int>(UniformIndex(rng, static_cast<std::uint64_t>(side - m + 1 - 2 * options.border)));
    };
    const int y = place(map.height);
    const int x = place(map.width);
    if (ExtractPatch(map, y, x, m, true, patches.row(i).data()) > min_norm) ++i;
  }
  return patches;
}

}  // namespace

absl::Status RunFigure3(const Figure3Options& options, const std::string& folder, const std::string& results,
                        ThreadPool& pool, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = ProcessCpuSeconds();
  CKN_ASSIGN_OR_RETURN(const ResultsFolder output, ResultsFolder::Open(results));
  CKN_ASSIGN_OR_RETURN(const std::vector<FeatureMap> photographs,
                       ReadPhotographs(folder, options.patch_size + 2 * options.border));
  const std::int64_t held_out = std::max<std::int64_t>(1, options.learning.pairs / 10);
  const Eigen::Index pairs = options.learning.pairs + held_out;
  CKN_ASSIGN_OR_RETURN(RowMatrixF patches, DrawPatches(photographs, 2 * pairs, options));
  const PrincipalComponents components = FitPrincipalComponents(patches, options.components, pool);
  WhitenAndNormalise(components.whitening, patches, pool);
  progress.report(absl::StrFormat("%d %dx%d patches of %d photographs, whitened, %d components", patches.rows(),
                                  options.patch_size, options.patch_size, photographs.size(), patches.cols()));
  if (progress.stopped()) return absl::CancelledError("interrupted");

  PatchPairs drawn{patches.middleRows(0, options.learning.pairs),
                   patches.middleRows(options.learning.pairs, options.learning.pairs)};
  PatchPairs unseen{patches.middleRows(2 * options.learning.pairs, held_out), patches.bottomRows(held_out)};
  patches.resize(0, 0);

  LayerPlan plan;
  plan.filters = options.filters;
  plan.layer.patch_size = options.patch_size;
  plan.layer.in_channels = 1;
  plan.layer.subtract_patch_mean = true;
  if (options.sigma_quantile > 0) {
    plan.sigma_quantile = options.sigma_quantile;
  } else {
    plan.sigma = options.sigma;
  }
  LearningOptions learning = options.learning;
  learning.init = FilterInit::kRandom;
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  learning.on_iteration = [&curve](int, int iteration, double objective) { curve.push_back({iteration, objective}); };

  const std::string key = absl::StrFormat(
      "figure 3: %s, %d filters of %d, %d components, contrast %g, sigma %g %g, border %d, %d pairs, seed %d",
      std::filesystem::path(folder).filename().native(), options.filters, options.patch_size, options.components,
      options.min_contrast, options.sigma, options.sigma_quantile, options.border, learning.pairs, options.seed);
  CKN_ASSIGN_OR_RETURN(LayerJournal journal, LayerJournal::Open(output.CacheFile("figure3.state"), key, true));
  LayerCheckpoint checkpoint;
  checkpoint.restored = journal.optimiser();
  checkpoint.save = [&journal](const std::string& optimiser) { return journal.SaveOptimiser(optimiser); };
  CKN_ASSIGN_OR_RETURN(const LearnedLayer learned,
                       LearnLayerFromPairs(plan, std::move(drawn), std::move(unseen), learning, options.seed, 1,
                                           checkpoint, pool, progress));

  const Layer& layer = learned.layer;
  std::vector<int> order(static_cast<std::size_t>(layer.filter_count()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&layer](int a, int b) { return layer.eta[a] > layer.eta[b]; });
  const RowMatrixF sorted = layer.filters(order, Eigen::all) * components.basis;
  const std::int64_t dims[] = {layer.filter_count(), options.patch_size, options.patch_size};
  CKN_RETURN_IF_ERROR(
      WriteNpy(absl::StrCat(results, "/filters.npy"), {sorted.data(), static_cast<std::size_t>(sorted.size())}, dims));
  nlohmann::ordered_json json;
  json["filters"] = options.filters;
  json["patch_size"] = options.patch_size;
  json["photographs"] = photographs.size();
  json["components"] = components.basis.rows();
  json["min_contrast"] = options.min_contrast;
  json["pairs"] = options.learning.pairs;
  json["seed"] = options.seed;
  json["sigma"] = layer.sigma;
  json["iterations"] = learned.learning.iterations();
  json["objective_start"] = learned.learning.objective_start();
  json["objective"] = learned.learning.objective();
  json["held_out_objective"] = learned.learning.held_out_objective();
  json["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  json["cpu_seconds"] = ProcessCpuSeconds() - cpu_start;
  json["threads"] = pool.threads();
  json["cpu"] = CpuName();
  json["simd"] = SimdTarget();
  json["program_version"] = options.program_version;
  json["eta"] = nlohmann::ordered_json::array();
  for (const int l : order) json["eta"].push_back(layer.eta[l]);
  json["curve"] = curve;
  return output.Write("figure3", json);
}

}  // namespace ckn
