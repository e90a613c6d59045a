#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/base/thread_pool.h"
#include "server/training/layer_learner.h"
#include "server/training/progress.h"

namespace ckn {

// The paper's section 4.1 and figure 3: filters learned on whitened patches of natural photographs, from Gaussian
// noise. The paper does not say how it whitened; the defaults are those under which Gabor-like filters form: with a
// larger sigma many filters stay noise, with a smaller one, fewer pairs or many more iterations they become mixtures.
struct Figure3Options {
  int filters = 256;
  int patch_size = 12;
  // Whitening keeps this many principal components of the patches; filters are learned, from Gaussian noise, in the
  // space of these. The others are mostly the noise of the finest scale.
  int components = 46;
  // Patches whose pixels, in [0, 1], have a standard deviation below this are not drawn: brought to unit norm they
  // would be the noise of the camera.
  double min_contrast = 0.1;
  double sigma = 0.75;
  double sigma_quantile = 0;  // sigma is this quantile of the distances instead, if it is not 0
  int border = 8;             // pixels at the photographs' edges that are left out
  LearningOptions learning{.iterations = 400};
  std::uint64_t seed = 1;
  std::string program_version;
};

// Learns on the image files of `folder` (gray, by luma) and writes into the results folder
//   filters.npy   float32 [filters][patch_size][patch_size], largest eta first, in the whitened space
//   figure3.json  eta in the same order, sigma, objective, its curve, time
// NOT_FOUND: no images; CANCELLED when progress says stop, the state is kept in cache/ and the next call goes on.
absl::Status RunFigure3(const Figure3Options& options, const std::string& folder, const std::string& results,
                        ThreadPool& pool, const Progress& progress);

}  // namespace ckn
