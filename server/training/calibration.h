#pragma once

#include <span>

#include "server/base/matrix.h"

// Probabilities from margins: softmax(scale * margins), "temperature scaling" of Guo, Pleiss, Sun and Weinberger, "On
// Calibration of Modern Neural Networks", ICML 2017. One number to fit, and the order of the classes stays.
// scores [n][classes], labels [n], n >= 1.
namespace ckn {

// The scale that makes the labels most likely, each held to be right with probability (n + 1) / (n + 2) only, the other
// classes sharing the rest (Platt, "Probabilistic Outputs for Support Vector Machines", 1999): few images, all of them
// right, are no reason to be certain.
double FitProbabilityScale(const RowMatrixF& scores, std::span<const int> labels);

struct Calibration {
  // Mean of -ln(probability of the label).
  double log_loss = 0;
  // Expected calibration error: the images in 15 bins of equal width by the probability of their predicted class, the
  // mean over images of the difference between their bin's mean probability and its share of right predictions.
  double error = 0;
};
Calibration MeasureCalibration(const RowMatrixF& scores, std::span<const int> labels, double scale);

}  // namespace ckn
