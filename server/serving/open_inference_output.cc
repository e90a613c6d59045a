#include "server/serving/open_inference_output.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/endian.h"
#include "server/base/quote.h"
#include "server/base/status.h"

namespace ckn {
namespace {

using Requested = inference::ModelInferRequest::InferRequestedOutputTensor;
using Kind = OutputTensor::Kind;

constexpr const char* kClassification = "classification";

// Entries that the parameter "classification" asks for; 0: none.
absl::StatusOr<int> Classification(const Requested& output, const OutputTensor& tensor) {
  std::int64_t entries = 0;
  for (const auto& [name, value] : output.parameters()) {
    const bool takes_it = tensor.kind == Kind::kScores || tensor.kind == Kind::kProbabilities;
    // Others are hints, which some clients send with every tensor.
    if (name != kClassification && name.rfind("shared_memory", 0) != 0) continue;
    if (name != kClassification || !takes_it) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", Quote(name), " is not supported"));
    }
    const bool is_unsigned = value.parameter_choice_case() == inference::InferParameter::kUint64Param;
    if (!is_unsigned && value.parameter_choice_case() != inference::InferParameter::kInt64Param) {
      return absl::InvalidArgumentError("parameter classification: expected an integer");
    }
    entries = is_unsigned ? static_cast<std::int64_t>(std::min<std::uint64_t>(value.uint64_param(), tensor.width))
                          : value.int64_param();
    if (entries < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter classification: got ", entries, ", expected 0 or more"));
    }
  }
  return static_cast<int>(std::min<std::int64_t>(entries, tensor.width));
}

void AppendElement(std::string_view element, std::string& raw) {
  const std::uint32_t length = LittleEndian32(static_cast<std::uint32_t>(element.size()));
  char bytes[sizeof(length)];
  std::memcpy(bytes, &length, sizeof(length));
  raw.append(bytes, sizeof(bytes));
  raw.append(element);
}

}  // namespace

std::vector<OutputTensor> OutputsOf(const ServedModel& model) {
  const int classes = model.pipeline.class_count();
  std::vector<OutputTensor> outputs = {{Kind::kLabel, "label", true, 1}, {Kind::kScores, "scores", false, classes}};
  if (model.pipeline.probability_scale() > 0) {
    outputs.push_back({Kind::kProbabilities, "probabilities", false, classes});
  }
  outputs.push_back({Kind::kFeatures, "features", false, model.pipeline.feature_count()});
  if (model.pipeline.has_novelty()) outputs.push_back({Kind::kNovelty, "novelty", false, 1});
  return outputs;
}

absl::StatusOr<InferOutputs> InferOutputs::Parse(const inference::ModelInferRequest& request,
                                                 const ServedModel& model) {
  const std::vector<OutputTensor> offered = OutputsOf(model);
  InferOutputs outputs(model);
  if (request.outputs().empty()) {
    outputs.wanted_ = {{offered[0]}, {offered[1]}};
    return outputs;
  }
  for (const Requested& output : request.outputs()) {
    const auto tensor =
        std::ranges::find_if(offered, [&](const OutputTensor& candidate) { return candidate.name == output.name(); });
    if (tensor == offered.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output ", Quote(output.name()), ": the model does not have it, expected one of ",
          absl::StrJoin(offered, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.name); })));
    }
    for (const Wanted& other : outputs.wanted_) {
      if (other.tensor.kind == tensor->kind) {
        return absl::InvalidArgumentError(absl::StrCat("output ", Quote(output.name()), ": asked for twice"));
      }
    }
    const absl::StatusOr<int> classification = Classification(output, *tensor);
    CKN_RETURN_IF_ERROR(Annotate(classification.status(), absl::StrCat("output ", Quote(output.name()))));
    outputs.wanted_.push_back({*tensor, *classification});
  }
  return outputs;
}

std::int64_t InferOutputs::BytesPerImage() const {
  // Of a BYTES element: tag, lengths, a number and an index in decimal.
  constexpr std::int64_t kTextOverhead = 48;
  const std::int64_t text = kTextOverhead + static_cast<std::int64_t>(model_->longest_class_name);
  std::int64_t bytes = 0;
  for (const Wanted& output : wanted_) {
    bytes += output.classification > 0 ? output.classification * text
             : output.tensor.text      ? text
                                       : std::int64_t{4} * output.tensor.width;
  }
  return bytes;
}

absl::StatusOr<InferResult> InferOutputs::Compute(const ImageU8& image) const {
  const auto wants = [this](Kind kind) {
    return std::ranges::any_of(wanted_, [kind](const Wanted& output) { return output.tensor.kind == kind; });
  };
  InferResult result;
  CKN_ASSIGN_OR_RETURN(result.features,
                       model_->pipeline.Encode(image, wants(Kind::kNovelty) ? &result.novelty : nullptr));
  if (wants(Kind::kLabel) || wants(Kind::kScores) || wants(Kind::kProbabilities)) {
    CKN_ASSIGN_OR_RETURN(result.scores, model_->pipeline.Score(result.features));
    if (wants(Kind::kProbabilities)) result.probabilities = model_->pipeline.Probabilities(result.scores);
  }
  if (!wants(Kind::kFeatures)) result.features.clear();
  return result;
}

void InferOutputs::Write(const std::vector<InferResult>& results, bool raw,
                         inference::ModelInferResponse* response) const {
  for (const Wanted& output : wanted_) {
    const bool text = output.tensor.text || output.classification > 0;
    auto& tensor = *response->add_outputs();
    tensor.set_name(output.tensor.name);
    tensor.set_datatype(text ? "BYTES" : "FP32");
    tensor.add_shape(static_cast<std::int64_t>(results.size()));
    tensor.add_shape(output.classification > 0 ? output.classification : output.tensor.width);
    std::string* const bytes = raw ? response->add_raw_output_contents() : nullptr;
    const auto add_text = [&](const std::string& element) {
      if (raw) {
        AppendElement(element, *bytes);
      } else {
        tensor.mutable_contents()->add_bytes_contents(element);
      }
    };
    const auto label = [this](int index) { return model_->info.class_names(index); };
    for (const InferResult& result : results) {
      if (output.tensor.kind == Kind::kLabel) {
        add_text(label(ArgMax(result.scores)));
        continue;
      }
      const float rank = result.novelty ? result.novelty->rank : 0;
      const std::span<const float> values = output.tensor.kind == Kind::kScores ? std::span(result.scores)
                                            : output.tensor.kind == Kind::kProbabilities
                                                ? std::span(result.probabilities)
                                            : output.tensor.kind == Kind::kFeatures ? std::span(result.features)
                                                                                    : std::span(&rank, 1);
      if (output.classification > 0) {
        for (const int index : TopK(values, output.classification)) {
          add_text(absl::StrCat(values[static_cast<std::size_t>(index)], ":", index, ":", label(index)));
        }
      } else if (raw) {
        AppendFloats(values, *bytes);
      } else {
        tensor.mutable_contents()->mutable_fp32_contents()->Add(values.begin(), values.end());
      }
    }
  }
}

}  // namespace ckn
