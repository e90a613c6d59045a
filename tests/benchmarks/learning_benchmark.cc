// One side of learning.py: L-BFGS-B on problem (4) with the project's objective.
//
// usage: learning_benchmark write FOLDER PAIRS DIM FILTERS          the problem as pairs.npy and filters.npy
//        learning_benchmark run PAIRS DIM FILTERS ITERATIONS THREADS   solves the same problem, prints JSON
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "server/base/npy.h"
#include "server/training/kernel_approximation.h"
#include "server/training/lbfgsb.h"

namespace ckn {
namespace {

constexpr double kSigma = 0.7;

struct Problem {
  std::int64_t pairs = 0, dim = 0, filters = 0;
  RowMatrixF x, y, w;
};

int Number(const char* text) {
  const std::string_view view(text);
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  return error == std::errc() && end == view.data() + view.size() && value > 0 ? value : 0;
}

// Unit vectors in clusters, pairs mostly from the same one, as patches are; first filters are some of them.
Problem MakeProblem(int pairs, int dim, int filters) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  constexpr int kClusters = 100;
  RowMatrixF centres(kClusters, dim);
  for (float& value : centres.reshaped()) value = normal(rng);
  Problem problem{pairs, dim, filters, RowMatrixF(pairs, dim), RowMatrixF(pairs, dim), RowMatrixF(filters, dim)};
  for (Eigen::Index i = 0; i < pairs; ++i) {
    const auto cluster = static_cast<Eigen::Index>(rng() % kClusters);
    const auto other = rng() % 2 == 0 ? cluster : static_cast<Eigen::Index>(rng() % kClusters);
    for (Eigen::Index j = 0; j < dim; ++j) {
      problem.x(i, j) = centres(cluster, j) + 0.5F * normal(rng);
      problem.y(i, j) = centres(other, j) + 0.5F * normal(rng);
    }
  }
  problem.x.rowwise().normalize();
  problem.y.rowwise().normalize();
  problem.w = problem.x.topRows(filters);
  return problem;
}

bool Write(const std::string& folder, const Problem& problem) {
  RowMatrixF both(2 * problem.pairs, problem.dim);
  both << problem.x, problem.y;
  const std::int64_t pair_shape[] = {2, problem.pairs, problem.dim};
  const std::int64_t filter_shape[] = {problem.filters, problem.dim};
  const auto values = [](const RowMatrixF& m) {
    return std::span<const float>(m.data(), static_cast<std::size_t>(m.size()));
  };
  for (const absl::Status& status : {WriteNpy(folder + "/pairs.npy", values(both), pair_shape),
                                     WriteNpy(folder + "/filters.npy", values(problem.w), filter_shape)}) {
    if (!status.ok()) {
      std::fprintf(stderr, "learning_benchmark: %s\n", status.ToString().c_str());
      return false;
    }
  }
  return true;
}

int Run(const Problem& problem, int iterations, int threads) {
  ThreadPool pool(threads);
  const KernelApproximation objective({problem.x, problem.y}, kSigma, static_cast<int>(problem.filters), pool);
  std::vector<double> start(objective.variable_count(), objective.BestConstantEta(problem.w));
  Eigen::Map<RowMatrixD>(start.data(), problem.filters, problem.dim) = problem.w.cast<double>();
  std::vector<bool> bounded(start.size());
  std::fill(bounded.begin() + problem.w.size(), bounded.end(), true);

  nlohmann::ordered_json json;
  json["eta"] = start.back();
  json["start"] = objective.Evaluate(start, {});
  Lbfgsb solver(std::move(start), bounded, LbfgsbOptions{});
  const auto begin = std::chrono::steady_clock::now();
  int evaluations = 0;
  for (bool done = false; !done;) {
    switch (solver.Step()) {
      case Lbfgsb::Request::kEvaluate:
        solver.SetValue(objective.Evaluate(solver.x(), solver.gradient()));
        ++evaluations;
        break;
      case Lbfgsb::Request::kIteration:
        done = solver.iterations() >= iterations;
        break;
      case Lbfgsb::Request::kDone:
        done = true;
        break;
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  json["objective"] = solver.value();
  json["iterations"] = solver.iterations();
  json["evaluations"] = evaluations;
  json["seconds_per_evaluation"] = seconds / evaluations;
  json["gflops"] = objective.FlopsPerEvaluation() * evaluations / seconds * 1e-9;
  std::printf("%s\n", json.dump().c_str());
  return 0;
}

int Main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const int first = command == "write" ? 3 : 2;
  std::vector<int> numbers;
  for (int i = first; i < argc; ++i) numbers.push_back(Number(argv[i]));
  const bool good = std::find(numbers.begin(), numbers.end(), 0) == numbers.end();
  if (command == "write" && numbers.size() == 3 && good) {
    return Write(argv[2], MakeProblem(numbers[0], numbers[1], numbers[2])) ? 0 : 1;
  }
  if (command == "run" && numbers.size() == 5 && good) {
    return Run(MakeProblem(numbers[0], numbers[1], numbers[2]), numbers[3], numbers[4]);
  }
  std::fprintf(stderr,
               "usage: learning_benchmark write FOLDER PAIRS DIM FILTERS\n"
               "       learning_benchmark run PAIRS DIM FILTERS ITERATIONS THREADS\n");
  return 2;
}

}  // namespace
}  // namespace ckn

int main(int argc, char** argv) { return ckn::Main(argc, argv); }
