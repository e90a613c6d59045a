#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/base/thread_pool.h"
#include "server/training/dataset.h"
#include "server/training/layer_learner.h"
#include "server/training/progress.h"

namespace ckn {

// One cell of the paper's table 1: an architecture trained on so many images, drawn by the seed.
struct Cell {
  std::string architecture;
  std::int64_t train_size = 0;
  std::uint64_t seed = 1;

  // "ckn-gm1-300-seed1"
  [[nodiscard]] std::string Name() const;
  friend bool operator==(const Cell&, const Cell&) = default;
};

// The table in the order of work, one architecture and seed after another: CKN-GM1, GM2, PM1, PM2 on 300, 1K, 2K, 5K,
// 10K, 20K, 40K and 60K images. Seed 1 has all cells; seeds 2 ... `seeds` those of at most 10K images, and the 60K ones
// of the small architectures GM1 and PM1.
std::vector<Cell> Table1Cells(int seeds);

struct Table1Options {
  std::vector<Cell> cells;
  LearningOptions learning;
  std::string program_version;
};

// Works on every cell that has no result yet. Filters are learned once an architecture and seed, on all training images
// without their labels, and shared by its cells; the subset, C and classifier are each cell's own. CANCELLED when
// progress says stop: finished cells are kept, and so is the state of the learning.
absl::Status RunTable1(const Table1Options& options, const Dataset& train, const Dataset& test,
                       const std::string& results, ThreadPool& pool, const Progress& progress);

}  // namespace ckn
