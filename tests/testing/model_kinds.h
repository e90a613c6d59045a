#pragma once

#include <vector>

#include "server/store/model.h"

namespace ckn::testing {

// Small models with random weights that together have every kind of input, layer and combination a model file can
// hold: gray, colour and gradient maps; few and many filters; centring, whitening, projection; norms below the floor;
// filters without weight; pooling that skips, overlaps and reaches over the border; mirror images; several networks;
// with and without calibration. Their names say what is special. Always the same.
std::vector<Model> ModelsOfAllKinds();

}  // namespace ckn::testing
