#include "server/training/nystrom.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ckn/encoder.h"
#include "server/training/kmeans.h"

namespace ckn {
namespace {

constexpr double kSigma = 0.8;

// Unit rows scattered around a few directions, as patches are.
RowMatrixF UnitRows(Eigen::Index n, Eigen::Index dim, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  RowMatrixF centres(6, dim), rows(n, dim);
  std::mt19937 fixed(1);
  for (Eigen::Index i = 0; i < centres.size(); ++i) centres.data()[i] = normal(fixed);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < dim; ++j) rows(i, j) = centres(static_cast<Eigen::Index>(rng() % 6), j) + normal(rng);
    rows.row(i).normalize();
  }
  return rows;
}

RowMatrixD Kappa(const RowMatrixF& x, const RowMatrixF& z) {
  return ((x.cast<double>() * z.cast<double>().transpose()).array() - 1) / (kSigma * kSigma);
}

TEST(NystromTest, IsExactOnItsFilters) {
  const RowMatrixF filters = UnitRows(12, 9, 2);
  const RowMatrixD kernel = Kappa(filters, filters).array().exp();
  const RowMatrixD projection = NystromProjection(filters, kSigma).cast<double>();
  EXPECT_LT((projection - projection.transpose()).cwiseAbs().maxCoeff(), 1e-4);
  // psi(z_i) . psi(z_j) = kernel(z_i, z_j).
  const RowMatrixD psi = kernel * projection;
  EXPECT_LT((psi * psi.transpose() - kernel).cwiseAbs().maxCoeff(), 1e-4);
  // No other point gets a longer vector than its own: psi is a projection.
  const RowMatrixD others = Kappa(UnitRows(200, 9, 3), filters).array().exp().matrix() * projection;
  EXPECT_LT(others.rowwise().norm().maxCoeff(), 1 + 1e-4);
}

TEST(NystromTest, EqualFiltersDoNotBlowUp) {
  RowMatrixF filters = UnitRows(10, 9, 4);
  filters.row(7) = filters.row(2);
  const RowMatrixF projection = NystromProjection(filters, kSigma);
  EXPECT_LT(projection.cwiseAbs().maxCoeff(), 1.1e3);
}

TEST(NystromTest, ErrorIsThatOfTheKernelAndFallsWithFilters) {
  const RowMatrixF x = UnitRows(3000, 9, 5);
  const RowMatrixF y = UnitRows(3000, 9, 6);
  ThreadPool pool(2);
  double last = 1;
  for (const int filters : {4, 16, 64}) {
    const absl::StatusOr<RowMatrixF> z = KMeans(x, filters, 20, Centroids::kSpherical, 1, pool, Progress{});
    ASSERT_TRUE(z.ok());
    EXPECT_LT((z->rowwise().norm().array() - 1).abs().maxCoeff(), 1e-5);
    const RowMatrixF projection = NystromProjection(*z, kSigma);
    const double error = NystromError(x, y, *z, projection, kSigma, pool);
    const RowMatrixD a = Kappa(x, *z).array().exp().matrix() * projection.cast<double>();
    const RowMatrixD b = Kappa(y, *z).array().exp().matrix() * projection.cast<double>();
    const Eigen::ArrayXd exact =
        (-(x - y).cast<double>().rowwise().squaredNorm().array() / (2 * kSigma * kSigma)).exp();
    EXPECT_NEAR(error, (exact - (a.array() * b.array()).rowwise().sum()).square().mean(), 1e-4 * error + 1e-9);
    EXPECT_LT(error, 0.5 * last);
    last = error;
  }
}

TEST(NystromTest, TheEncoderComputesPsi) {
  // One patch, no neighbours: the encoder's output is psi(x) times the constant of the pooling.
  Layer shape;
  shape.patch_size = 3;
  shape.in_channels = 1;
  shape.pooling_radius = 0;
  const PatchPairs pairs{UnitRows(500, 9, 7), UnitRows(500, 9, 8)};
  const PatchPairs held_out{UnitRows(50, 9, 9), UnitRows(50, 9, 10)};
  ThreadPool pool(2);
  const auto learned = LearnNystromLayer(shape, 8, kSigma, pairs, held_out, LearningOptions{}, 1, pool, Progress{});
  ASSERT_TRUE(learned.ok()) << learned.status();
  const auto encoder = Encoder::Create({learned->layer}, {3, 3, 1});
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  FeatureMap map(3, 3, 1);
  const RowMatrixF patch = 2.5F * UnitRows(1, 9, 11);
  std::copy(patch.data(), patch.data() + 9, map.values.begin());
  std::vector<float> out(8);
  encoder->Encode(map, out);
  const RowMatrixD expected =
      2.5 * std::sqrt(2 / M_PI) *
      (Kappa(patch / 2.5F, learned->layer.filters).array().exp().matrix() * learned->layer.projection.cast<double>());
  for (int l = 0; l < 8; ++l) EXPECT_NEAR(out[static_cast<std::size_t>(l)], expected(0, l), 1e-4);
  EXPECT_GT(learned->learning.held_out_objective(), 0);
}

}  // namespace
}  // namespace ckn
