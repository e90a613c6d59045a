#include "server/experiments/variants.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/quote.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// Two of the same kind exclude each other.
enum class Kind { kParameters, kMethod, kMean, kWhitening };

struct Variant {
  const char* name;
  Kind kind;
  // False if it means nothing to the networks.
  bool (*apply)(std::vector<NetworkPlan>& plans, LearningOptions& learning);
};

// Calls change(layer) with the first layer of each map of pixels; returns whether any call did.
template <typename Change>
bool ChangeFirstPixelLayers(std::vector<NetworkPlan>& plans, const Change& change) {
  bool any = false;
  for (NetworkPlan& plan : plans) {
    if (plan.input.map == InputMap::kPixels && change(plan.layers.front())) any = true;
  }
  return any;
}

template <bool kSubtract>
bool SetPatchMean(std::vector<NetworkPlan>& plans, LearningOptions& /*learning*/) {
  return ChangeFirstPixelLayers(plans, [](LayerPlan& layer) {
    const bool changes = layer.layer.subtract_patch_mean != kSubtract;
    layer.layer.subtract_patch_mean = kSubtract;
    return changes;
  });
}

constexpr Variant kVariants[] = {
    // What the algorithm does when the recipe says nothing of sigma and of the pooling filter's support.
    {"defaults", Kind::kParameters,
     [](std::vector<NetworkPlan>& plans, LearningOptions&) {
       for (NetworkPlan& plan : plans) {
         for (LayerPlan& layer : plan.layers) {
           layer.layer.pooling_radius = layer.layer.subsampling;
           layer.sigma = 0;
           layer.sigma_quantile = LayerPlan().sigma_quantile;
           layer.principal_components = 0;
           layer.pairs_factor = 1;
         }
       }
       return true;
     }},
    // As much work as 70 iterations of L-BFGS-B on 300,000 pairs.
    {"sgd", Kind::kMethod,
     [](std::vector<NetworkPlan>&, LearningOptions& learning) {
       learning.method = LearningMethod::kStochastic;
       learning.iterations = 10'000;
       return true;
     }},
    {"nystrom", Kind::kMethod,
     [](std::vector<NetworkPlan>&, LearningOptions& learning) {
       learning.method = LearningMethod::kNystrom;
       return true;
     }},
    {"centred", Kind::kMean, SetPatchMean<true>},
    {"uncentred", Kind::kMean, SetPatchMean<false>},
    {"whitened", Kind::kWhitening,
     [](std::vector<NetworkPlan>& plans, LearningOptions&) {
       return ChangeFirstPixelLayers(plans, [](LayerPlan& layer) {
         const bool changes = !layer.whiten;
         layer.whiten = true;
         return changes;
       });
     }},
};

// In the order of kVariants.
absl::StatusOr<std::vector<const Variant*>> Parse(std::string_view text) {
  std::vector<const Variant*> parts;
  std::size_t first = 0;
  while (first <= text.size()) {
    const std::size_t end = std::min(text.find('+', first), text.size());
    const std::string_view name = text.substr(first, end - first);
    const auto* const found = std::ranges::find(kVariants, name, &Variant::name);
    if (found == std::end(kVariants)) {
      return absl::InvalidArgumentError(absl::StrFormat("variant %s: got %s, expected %s, or several joined by '+'",
                                                        Quote(text), Quote(name), absl::StrJoin(VariantNames(), ", ")));
    }
    for (const Variant* const other : parts) {
      if (other->kind == found->kind) {
        return absl::InvalidArgumentError(
            absl::StrFormat("variant %s: got %s and %s, expected one of them", Quote(text), other->name, found->name));
      }
    }
    // One name a variant, since results are known by it.
    if (!parts.empty() && found < parts.back()) {
      return absl::InvalidArgumentError(absl::StrFormat("variant %s: got %s before %s, expected it behind", Quote(text),
                                                        parts.back()->name, found->name));
    }
    parts.push_back(found);
    first = end + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string> VariantNames() {
  std::vector<std::string> names;
  for (const Variant& variant : kVariants) names.emplace_back(variant.name);
  return names;
}

absl::Status CheckVariant(std::string_view variant) { return Parse(variant).status(); }

absl::Status ApplyVariant(std::string_view variant, std::vector<NetworkPlan>& plans, LearningOptions& learning) {
  if (variant.empty()) return absl::OkStatus();
  CKN_ASSIGN_OR_RETURN(const std::vector<const Variant*> parts, Parse(variant));
  for (const Variant* const part : parts) {
    if (part->apply(plans, learning)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("variant %s: it would change nothing, expected a network of pixels that is not %s already",
                        part->name, part->name));
  }
  return absl::OkStatus();
}

}  // namespace ckn
