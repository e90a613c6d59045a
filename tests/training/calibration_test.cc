#include "server/training/calibration.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "server/svm/linear_svm.h"

namespace ckn {
namespace {

// Margins of which softmax(scale * margins) are the true probabilities of the labels.
struct Sample {
  RowMatrixF scores;
  std::vector<int> labels;
};

Sample Draw(Eigen::Index n, int classes, double scale) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  Sample sample{RowMatrixF(n, classes), {}};
  for (float& score : sample.scores.reshaped()) score = normal(rng);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Eigen::ArrayXd weights = (scale * sample.scores.row(i).transpose().cast<double>()).array().exp();
    std::discrete_distribution<int> label(weights.begin(), weights.end());
    sample.labels.push_back(label(rng));
  }
  return sample;
}

TEST(CalibrationTest, FindsTheScaleThatMadeTheLabels) {
  for (const double scale : {0.2, 1.0, 3.0, 20.0}) {
    const Sample sample = Draw(20000, 5, scale);
    const double fitted = FitProbabilityScale(sample.scores, sample.labels);
    EXPECT_NEAR(fitted, scale, 0.06 * scale);
    // It is the minimum.
    const double best = MeasureCalibration(sample.scores, sample.labels, fitted).log_loss;
    for (const double factor : {0.9, 1.1}) {
      EXPECT_GT(MeasureCalibration(sample.scores, sample.labels, factor * fitted).log_loss, best);
    }
    // Probabilities that are the true ones are calibrated, overconfident ones are not.
    EXPECT_LT(MeasureCalibration(sample.scores, sample.labels, fitted).error, 0.02);
    if (scale < 10) {
      EXPECT_GT(MeasureCalibration(sample.scores, sample.labels, 5 * fitted).error, 0.03);
    }
  }
}

// Fifteen images, all right: that is no certainty, whatever the size of the margins.
TEST(CalibrationTest, FewImagesWithoutAnErrorAreNoCertainty) {
  for (const float size : {1e-4F, 1.0F, 100.0F}) {
    RowMatrixF scores(15, 2);
    std::vector<int> labels;
    for (Eigen::Index i = 0; i < 15; ++i) {
      labels.push_back(static_cast<int>(i % 2));
      scores.row(i).setConstant(-size);
      scores(i, i % 2) = size;
    }
    const double scale = FitProbabilityScale(scores, labels);
    EXPECT_NEAR(1 / (1 + std::exp(-2 * scale * static_cast<double>(size))), 16.0 / 17, 1e-4) << size;
  }
}

TEST(CalibrationTest, WhatIsAllWrongStaysWithinBounds) {
  RowMatrixF scores(4, 2);
  scores << 1, -1, -1, 1, 2, -2, -3, 3;
  const std::vector<int> right = {0, 1, 0, 1}, wrong = {1, 0, 1, 0};
  const double small = FitProbabilityScale(scores, wrong);
  EXPECT_TRUE(small > 0 && small < 0.01) << small;
  const RowMatrixF equal = RowMatrixF::Zero(4, 2);
  EXPECT_TRUE(std::isfinite(FitProbabilityScale(equal, right)));
}

TEST(CalibrationTest, MeasuresAsDefined) {
  RowMatrixF scores(2, 2);
  scores << 0, 1, 2, 0;  // probabilities of class 1: 0.7311, 0.1192
  const std::vector<int> labels = {1, 1};
  const Calibration measured = MeasureCalibration(scores, labels, 1);
  EXPECT_NEAR(measured.log_loss, -(std::log(0.731059) + std::log(0.119203)) / 2, 1e-5);
  EXPECT_NEAR(measured.error, ((1 - 0.731059) + 0.880797) / 2, 1e-5);
}

TEST(LinearSvmProbabilitiesTest, AreTheSoftmaxOfScaledMargins) {
  LinearSvm svm;
  svm.probability_scale = 2;
  const std::vector<float> p = svm.Probabilities(std::vector<float>{0, 1, -500});
  ASSERT_EQ(p.size(), 3U);
  EXPECT_NEAR(p[1], 1 / (1 + std::exp(-2.0)), 1e-6);
  EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-6);
  EXPECT_EQ(p[2], 0);
  const std::vector<float> huge = svm.Probabilities(std::vector<float>{1e30F, -1e30F});
  EXPECT_EQ(huge[0], 1);
}

}  // namespace
}  // namespace ckn
