#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ckn/v1/inference.pb.h"
#include "client/bulk.h"

// What ckn-client prints. Tables are for people, one line a file; JSON is for programs and keeps its keys:
//   classify  {"model", "version", "results": [{"file", "classes": [{"index", "label", "score", "probability"}],
//                                    "novelty": {"residual", "rank"}} or {"file", "error"}]}
//   encode    {"model", "version", "results": [{"file", "features": [number], "novelty"} or {"file", "error"}]}
//   models    {"models": [{"name", "version", "height", "width", "channels", "features", "classes": [string], "sha256",
//   "dataset",
//                          "validation_error_percent", "test_error_percent" (null when not known)}]}
//   "probability" and "novelty" are missing where the model has none.
//   "error" is {"code", "message"}, code as in gRPC: "INVALID_ARGUMENT".
namespace ckn {

// Files with an error are in the JSON but not in a table: they go to stderr, see FailureLines.
std::string ClassifyTable(const BulkResult<v1::Classification>& bulk);
std::string ClassifyJson(const BulkResult<v1::Classification>& bulk);
std::string EncodeTable(const BulkResult<v1::Features>& bulk);
std::string EncodeJson(const BulkResult<v1::Features>& bulk);
std::string ModelsTable(const v1::ListModelsResponse& response);
std::string ModelsJson(const v1::ListModelsResponse& response);

// "FILE: CODE: message" for each file with an error of its own, then one line for what ended the work and the number of
// files that it cost.
template <typename Result>
std::vector<std::string> FailureLines(const BulkResult<Result>& bulk);

// Features as one array, [files][width]: row i belongs to file i. The row of a file with an error is NaN.
struct FeatureArray {
  std::vector<float> values;
  std::vector<std::int64_t> shape;
};
// The first error when no file has features; INTERNAL when two files have different numbers of them.
absl::StatusOr<FeatureArray> ToFeatureArray(const BulkResult<v1::Features>& bulk);

}  // namespace ckn
