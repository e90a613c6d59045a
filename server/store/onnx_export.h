#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "ckn/onnx/onnx.pb.h"
#include "server/store/model_file.h"

namespace ckn {

// A trained model as an ONNX model of standard operators, operator set 13, for programs that run ONNX. All in float32:
//   image          [N][channels][height][width], pixels in [0, 1], of the model's size; channels 1 (gray) or 3 (RGB)
//   features       [N][features], standardised, in the order of `ckn encode`
//   scores         [N][classes], margins
//   probabilities  [N][classes], when the model is calibrated
// N, the number of images, may differ from call to call. Decoding and resizing are left to the caller, and the novelty
// of an image is not computed. Rounding aside, the outputs are those of Pipeline.
// Metadata: ckn_name, ckn_classes (one name a line), ckn_sha256 (of the model file).
// INVALID_ARGUMENT when the message would not stay below 2 GiB, the limit of the format; known before memory is asked
// for.
absl::StatusOr<onnx::ModelProto> ToOnnx(const LoadedModel& loaded, std::string_view program_version);

}  // namespace ckn
