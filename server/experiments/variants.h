#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/training/layer_learner.h"
#include "server/training/recipe.h"

namespace ckn {

// Other ways to make a network than the tables', by name:
// - "defaults" leaves sigma and the support of the pooling filter to the algorithm, and looks for filters anywhere;
// - "nystrom" and "sgd" are the methods of these names;
// - "centred", "uncentred": with or without each channel's mean over a patch subtracted, where the table's network does
//   the opposite, and "whitened": with whitened patches. These are for the first layer of a map of pixels.
// Several are joined by '+' in this order: "nystrom+whitened".
std::vector<std::string> VariantNames();

// INVALID_ARGUMENT for unknown names, another order than VariantNames', or two that exclude each other.
absl::Status CheckVariant(std::string_view variant);

// Changes the networks of a cell, and how they are learned. An empty variant changes nothing. INVALID_ARGUMENT as
// above, and where a part of the variant means nothing to any of the networks.
absl::Status ApplyVariant(std::string_view variant, std::vector<NetworkPlan>& plans, LearningOptions& learning);

}  // namespace ckn
