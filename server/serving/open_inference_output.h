#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "inference/open_inference.pb.h"
#include "server/novelty.h"
#include "server/serving/model_registry.h"

namespace ckn {

// What a model can return.
struct OutputTensor {
  enum class Kind { kLabel, kScores, kProbabilities, kFeatures, kNovelty };
  Kind kind;
  const char* name;
  bool text = false;  // BYTES, else FP32
  int width = 1;      // [N, width]
};
std::vector<OutputTensor> OutputsOf(const ServedModel& model);

// What was found out about one image; empty where nobody asked.
struct InferResult {
  std::vector<float> features, scores, probabilities;
  std::optional<Novelty> novelty;
};

// The outputs that a request asks for.
class InferOutputs {
 public:
  // INVALID_ARGUMENT: an output that the model does not have, or one twice, or with a parameter that it does not take.
  static absl::StatusOr<InferOutputs> Parse(const inference::ModelInferRequest& request, const ServedModel& model);

  // No more bytes of the reply than this are an image's.
  [[nodiscard]] std::int64_t BytesPerImage() const;
  [[nodiscard]] absl::StatusOr<InferResult> Compute(const ImageU8& image) const;
  // Adds the tensors, [results.size()] images.
  void Write(const std::vector<InferResult>& results, bool raw, inference::ModelInferResponse* response) const;

 private:
  struct Wanted {
    OutputTensor tensor;
    int classification = 0;  // entries; 0: the values themselves
  };

  explicit InferOutputs(const ServedModel& model) : model_(&model) {}

  const ServedModel* model_;
  std::vector<Wanted> wanted_;
};

}  // namespace ckn
