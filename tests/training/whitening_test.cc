#include "server/training/whitening.h"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace ckn {
namespace {

// Rows whose directions vary very differently.
RowMatrixF Correlated(Eigen::Index n, Eigen::Index dim) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  RowMatrixF mixing(dim, dim), rows(n, dim);
  for (float& value : mixing.reshaped()) value = normal(rng);
  for (Eigen::Index i = 0; i < dim; ++i) mixing.row(i) *= std::pow(0.7F, static_cast<float>(i));
  for (float& value : rows.reshaped()) value = normal(rng);
  return rows * mixing;
}

RowMatrixD Covariance(const RowMatrixF& rows) {
  return rows.cast<double>().transpose() * rows.cast<double>() / static_cast<double>(rows.rows());
}

TEST(WhiteningTest, MakesTheCovarianceTheIdentity) {
  ThreadPool pool(2);
  const RowMatrixF rows = Correlated(9000, 8);
  const RowMatrixF whitening = WhiteningMatrix(rows, 1e-9, pool);
  EXPECT_EQ(whitening, whitening.transpose());
  EXPECT_LT((Covariance(rows * whitening) - RowMatrixD::Identity(8, 8)).cwiseAbs().maxCoeff(), 2e-3);
}

TEST(WhiteningTest, TheFloorBoundsWhatIsBlownUp) {
  ThreadPool pool(1);
  RowMatrixF rows = Correlated(9000, 8);
  rows.col(3).setZero();  // a direction without any variation
  const RowMatrixF whitening = WhiteningMatrix(rows, 0.01, pool);
  const double largest = Covariance(rows).selfadjointView<Eigen::Lower>().eigenvalues().maxCoeff();
  EXPECT_NEAR(whitening(3, 3), 1 / std::sqrt(0.01 * largest), 1e-4 / std::sqrt(0.01 * largest));
  EXPECT_TRUE(whitening.allFinite());
}

TEST(WhiteningTest, RowsComeOutWithUnitNormWhateverTheThreads) {
  const RowMatrixF rows = Correlated(5000, 8);
  RowMatrixF one = rows, three = rows;
  ThreadPool single(1), many(3);
  WhitenAndNormalise(WhiteningMatrix(rows, 0.01, single), one, single);
  WhitenAndNormalise(WhiteningMatrix(rows, 0.01, many), three, many);
  EXPECT_EQ(one, three);
  EXPECT_LT((one.rowwise().norm().array() - 1).abs().maxCoeff(), 1e-5);
  const RowMatrixF expected = (rows * WhiteningMatrix(rows, 0.01, single)).rowwise().normalized();
  EXPECT_LT((one - expected).cwiseAbs().maxCoeff(), 1e-5);
}

}  // namespace
}  // namespace ckn
