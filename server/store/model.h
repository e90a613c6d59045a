#pragma once

#include <string>
#include <vector>

#include "ckn/v1/model.pb.h"
#include "server/ckn/layer.h"
#include "server/image/preprocess.h"
#include "server/svm/linear_svm.h"

namespace ckn {

// A trained model in memory: everything between an image and its scores, and where it came from.
struct Model {
  std::string name;
  InputSpec input;
  std::vector<Layer> layers;
  std::vector<v1::LayerLearning> learning;  // [layers]; diagnostics of each layer
  Standardization standardization;
  LinearSvm svm;
  std::vector<std::string> class_names;  // [svm.classes()]
  v1::Provenance provenance;
};

}  // namespace ckn
