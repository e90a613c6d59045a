#include "server/training/kernel_approximation.h"

#include <Eigen/QR>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace ckn {
namespace {

constexpr int kDim = 7;
constexpr int kFilters = 5;
constexpr double kSigma = 0.8;

PatchPairs RandomPairs(Eigen::Index n, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  PatchPairs pairs{RowMatrixF(n, kDim), RowMatrixF(n, kDim)};
  for (Eigen::Index i = 0; i < n; ++i) {
    for (int j = 0; j < kDim; ++j) {
      pairs.x(i, j) = normal(rng);
      pairs.y(i, j) = pairs.x(i, j) + 0.5F * normal(rng);  // near enough for kernel values of all sizes
    }
    pairs.x.row(i).normalize();
    pairs.y.row(i).normalize();
  }
  return pairs;
}

std::vector<double> RandomVariables(unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal;
  std::vector<double> variables(kFilters * (kDim + 1));
  for (double& v : variables) v = 0.4 * normal(rng);
  for (int l = 0; l < kFilters; ++l) variables[kFilters * kDim + l] = 0.2 + 0.1 * l;
  return variables;
}

// Problem (4) term by term as it is printed, in double precision.
double PlainObjective(const PatchPairs& pairs, const std::vector<double>& variables) {
  double sum = 0;
  for (Eigen::Index i = 0; i < pairs.size(); ++i) {
    double distance = 0;
    for (int j = 0; j < kDim; ++j) {
      const double d = static_cast<double>(pairs.x(i, j)) - pairs.y(i, j);
      distance += d * d;
    }
    double residual = std::exp(-distance / (2 * kSigma * kSigma));
    for (int l = 0; l < kFilters; ++l) {
      double to_x = 0, to_y = 0;
      for (int j = 0; j < kDim; ++j) {
        const double w = variables[l * kDim + j];
        to_x += (pairs.x(i, j) - w) * (pairs.x(i, j) - w);
        to_y += (pairs.y(i, j) - w) * (pairs.y(i, j) - w);
      }
      residual -=
          variables[kFilters * kDim + l] * std::exp(-to_x / (kSigma * kSigma)) * std::exp(-to_y / (kSigma * kSigma));
    }
    sum += residual * residual;
  }
  return sum / static_cast<double>(pairs.size());
}

// The gradient at a point is that of finite differences of the value.
void ExpectSlope(const std::function<double(const std::vector<double>&)>& value, const std::vector<double>& point,
                 const std::vector<double>& gradient) {
  double largest = 0;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < point.size(); ++i) {
    std::vector<double> above = point, below = point;
    above[i] += kStep;
    below[i] -= kStep;
    const double difference = (value(above) - value(below)) / (2 * kStep);
    EXPECT_NEAR(gradient[i], difference, 2e-5 * largest) << "variable " << i;
  }
}

TEST(KernelApproximationTest, ObjectiveIsProblem4) {
  ThreadPool pool(2);
  for (const Eigen::Index n : {1, 3, 700, 2000}) {
    const PatchPairs pairs = RandomPairs(n, 1);
    const KernelApproximation problem(pairs, kSigma, kFilters, pool);
    for (unsigned seed = 0; seed < 3; ++seed) {
      const std::vector<double> variables = RandomVariables(seed);
      const double expected = PlainObjective(pairs, variables);
      EXPECT_NEAR(problem.Evaluate(variables, {}), expected, 1e-5 * expected) << n;
    }
  }
}

TEST(KernelApproximationTest, GradientMatchesFiniteDifferences) {
  ThreadPool pool(2);
  const PatchPairs pairs = RandomPairs(900, 2);
  const KernelApproximation problem(pairs, kSigma, kFilters, pool);
  const std::vector<double> variables = RandomVariables(4);
  std::vector<double> gradient(variables.size());
  problem.Evaluate(variables, gradient);
  ExpectSlope([&](const std::vector<double>& at) { return PlainObjective(pairs, at); }, variables, gradient);
}

TEST(KernelApproximationTest, SubspaceCoordinatesGiveTheObjectiveOfTheWholeFiltersAndItsSlope) {
  ThreadPool pool(2);
  constexpr int kComponents = 3;
  const PatchPairs pairs = RandomPairs(1300, 8);
  const RowMatrixD random = RandomPairs(kDim, 9).x.cast<double>();
  const RowMatrixD orthonormal = Eigen::HouseholderQR<RowMatrixD>(random).householderQ();
  const RowMatrixF basis = orthonormal.topRows(kComponents).cast<float>();
  const KernelApproximation problem(pairs, kSigma, kFilters, pool, basis);
  ASSERT_EQ(problem.dim(), kComponents);
  ASSERT_EQ(problem.variable_count(), kFilters * (kComponents + 1));

  // The variables w, eta of coordinates v, a; a v that is too long stands for a shorter one.
  const auto whole = [&](const std::vector<double>& coordinates) {
    const Eigen::Map<const RowMatrixD> v(coordinates.data(), kFilters, kComponents);
    std::vector<double> variables(kFilters * (kDim + 1));
    Eigen::Map<RowMatrixD>(variables.data(), kFilters, kDim) = v * basis.cast<double>();
    for (int l = 0; l < kFilters; ++l) {
      const double norm = v.row(l).norm(), kept = std::min(norm, 1 + 2.8 * kSigma);
      for (int j = 0; j < kDim; ++j) variables[l * kDim + j] *= kept / norm;
      const double excess = kept - 1;
      variables[kFilters * kDim + l] =
          coordinates[kFilters * kComponents + l] * std::exp(2 * excess * excess / (kSigma * kSigma));
    }
    return variables;
  };
  std::vector<double> coordinates = RandomVariables(10);
  coordinates.resize(problem.variable_count());
  for (int l = 0; l < kFilters; ++l) coordinates[kFilters * kComponents + l] = 0.2 + 0.1 * l;

  Eigen::Map<Eigen::VectorXd> second(&coordinates[kComponents], kComponents);
  second *= 4 / second.norm();
  const RowMatrixD filters = problem.Filters(coordinates);
  EXPECT_NEAR(filters.row(1).norm(), 1 + 2.8 * kSigma, 1e-12);
  EXPECT_LT(filters.row(0).norm(), 1 + 2.8 * kSigma);
  for (int l = 0; l < kFilters; ++l) {
    EXPECT_NEAR(problem.Eta(coordinates)[l] / whole(coordinates)[kFilters * kDim + l], 1, 1e-9);
  }

  std::vector<double> slope(coordinates.size());
  const double expected = PlainObjective(pairs, whole(coordinates));
  EXPECT_NEAR(problem.Evaluate(coordinates, slope), expected, 1e-5 * expected);
  ExpectSlope([&](const std::vector<double>& at) { return PlainObjective(pairs, whole(at)); }, coordinates, slope);
  // A filter at the origin has no direction, but the numbers stay finite.
  std::fill_n(coordinates.begin(), kComponents, 0.0);
  EXPECT_TRUE(std::isfinite(problem.Evaluate(coordinates, slope)));
  for (const double s : slope) EXPECT_TRUE(std::isfinite(s));
  EXPECT_NEAR(problem.KernelEnergy(), KernelApproximation(pairs, kSigma, kFilters, pool).KernelEnergy(), 1e-9);
}

TEST(KernelApproximationTest, ThreadsDoNotChangeABit) {
  const std::vector<double> variables = RandomVariables(5);
  std::vector<std::vector<double>> gradients;
  std::vector<double> values;
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    const KernelApproximation problem(RandomPairs(9000, 3), kSigma, kFilters, pool);
    gradients.emplace_back(variables.size());
    values.push_back(problem.Evaluate(variables, gradients.back()));
  }
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[0], values[2]);
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(gradients[0], gradients[2]);
}

TEST(KernelApproximationTest, BestConstantEtaIsAMinimum) {
  ThreadPool pool(1);
  const PatchPairs pairs = RandomPairs(500, 6);
  const KernelApproximation problem(pairs, kSigma, kFilters, pool);
  std::vector<double> variables = RandomVariables(7);
  const RowMatrixF filters = Eigen::Map<const RowMatrixD>(variables.data(), kFilters, kDim).cast<float>();
  const double eta = problem.BestConstantEta(filters);
  const auto value_at = [&](double factor) {
    std::fill(variables.begin() + kFilters * kDim, variables.end(), factor * eta);
    return problem.Evaluate(variables, {});
  };
  EXPECT_GT(eta, 0);
  EXPECT_LT(value_at(1), value_at(0.97));
  EXPECT_LT(value_at(1), value_at(1.03));
  EXPECT_NEAR(value_at(0), problem.KernelEnergy(), 1e-6);
}

}  // namespace
}  // namespace ckn
