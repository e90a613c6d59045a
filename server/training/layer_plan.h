#pragma once

#include "server/ckn/layer.h"

namespace ckn {

// One layer to be learned: all of its shape, no parameters yet.
struct LayerPlan {
  Layer layer;  // filters, eta, sigma and whitening not set
  int filters = 0;
  double sigma = 0;  // 0: by quantile
  double sigma_quantile = 0.1;
  bool whiten = false;
  double whitening_floor = 0.001;  // part of the largest eigenvalue, see whitening.h
  int principal_components = 0;    // that L-BFGS-B looks for filters in the span of; 0: anywhere, and by w and eta
  int pairs_factor = 1;            // of problem (4): times LearningOptions::pairs
};

}  // namespace ckn
