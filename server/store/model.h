#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ckn/v1/model.pb.h"
#include "server/ckn/layer.h"
#include "server/image/preprocess.h"
#include "server/svm/linear_svm.h"

namespace ckn {

// From an image to features.
struct Network {
  std::string architecture;  // the recipe's name
  InputSpec input;
  std::vector<Layer> layers;
  std::vector<v1::LayerLearning> learning;  // [layers]; diagnostics of each layer
  Standardization standardization;
};

// A trained model in memory: everything between an image and its scores, and where it came from.
struct Model {
  std::string name;
  // At least one, all for images of one size; the classifier sees their features one after another.
  std::vector<Network> networks;
  LinearSvm svm;
  std::vector<std::string> class_names;  // [svm.classes()]
  // Of the training images (server/novelty.h), ascending; empty: the model cannot tell what is new to it.
  std::vector<float> residual_quantiles;
  v1::Provenance provenance;
};

// Table 3's "# param" over all networks.
inline std::int64_t ParameterCount(const Model& model) {
  std::int64_t count = 0;
  for (const Network& network : model.networks) count += ParameterCount(network.layers);
  return count;
}

}  // namespace ckn
