#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckn/v1/model.pb.h"
#include "server/base/thread_pool.h"
#include "server/training/dataset.h"
#include "server/training/layer_learner.h"
#include "server/training/progress.h"

// The paper's tables of errors, cell by cell.
namespace ckn {

// One figure of a table: an architecture, learned in one way, its classifier trained on some of the images.
struct Cell {
  std::string architecture;
  // Images drawn by the seed, an equal number a class; or those of one predefined fold of the data set, if fold >= 0.
  std::int64_t train_size = 0;
  std::uint64_t seed = 1;
  int fold = -1;
  // How the network is made; empty: as the paper does. See variants.h.
  std::string variant = {};

  // "ckn-gm1-300-seed1", "ckn-pm-stl10-fold3-seed1", "ckn-gm1-nystrom-300-seed1"
  [[nodiscard]] std::string Name() const;
  friend bool operator==(const Cell&, const Cell&) = default;
};

// Table 1 in the order of work, one architecture and seed after another: CKN-GM1, GM2, PM1, PM2 on 300, 1K, 2K, 5K,
// 10K, 20K, 40K and 60K images. Seed 1 has all cells; seeds 2 ... `seeds` those of at most 10K images, and the 60K ones
// of the small architectures GM1 and PM1. Beside the table: CKN-CO (ckn-co-mnist) on 60K images, for each seed.
std::vector<Cell> Table1Cells(int seeds);
// Table 2, CIFAR-10: CKN-GM, PM and CO on all 50,000 images. Beside the table: CKN-WIDE by nystrom.
std::vector<Cell> Cifar10Cells(int seeds);
// Table 2, STL-10: CKN-GM, PM and CO on each of the data set's folds.
std::vector<Cell> Stl10Cells(int seeds, int folds);

struct TableOptions {
  std::vector<Cell> cells;
  LearningOptions learning;
  std::string command;  // for the models' provenance
  std::string program_version;
};

// Works on every cell that has no result yet. The filters of a network are learned once a seed and variant, on all
// training images without their labels, and shared by the cells, also by those of a combination; the subset, C and
// classifier are each cell's own. CANCELLED when progress says stop: finished cells are kept, and so is the state of
// the learning.
absl::Status RunTable(const TableOptions& options, const Dataset& train, const Dataset& test,
                      const std::string& results, ThreadPool& pool, const Progress& progress);

}  // namespace ckn
