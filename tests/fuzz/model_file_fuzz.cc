// Model files. Those that are accepted become a pipeline, which classifies an image.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "server/base/sha256.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"
#include "server/store/onnx_export.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using ckn::testing::AsBytes;
using ckn::testing::CheckErrorMessage;
using ckn::testing::FuzzInput;

// So small that no model takes long.
constexpr ckn::ModelLimits kLimits{.max_file_bytes = 1 << 18,
                                   .max_networks = 3,
                                   .max_layers = 4,
                                   .max_image_side = 32,
                                   .max_filters = 96,
                                   .max_patch_dim = 1 << 9,
                                   .max_map_values = 1 << 13,
                                   .max_features = 1 << 12,
                                   .max_classes = 32,
                                   .max_quantiles = 16,
                                   .max_name_bytes = 32,
                                   .max_text_bytes = 64};

// Makes length and checksum right, which no fuzzer finds by itself. FORMAT.md draws the layout.
std::string WithChecksum(std::string_view file) {
  constexpr std::size_t kPayloadBytesAt = 16, kChecksumAt = 24, kHeaderBytes = 56;
  std::string out(file);
  if (out.size() < kHeaderBytes) return out;
  const std::size_t payload = out.size() - kHeaderBytes;
  for (std::size_t i = 0; i < 8; ++i) out[kPayloadBytesAt + i] = static_cast<char>(payload >> (8 * i) & 0xFF);
  return out.replace(kChecksumAt, ckn::Sha256::kDigestBytes, ckn::Sha256Digest(out.substr(kHeaderBytes)));
}

void CheckFinite(const absl::StatusOr<std::vector<float>>& values, std::size_t count) {
  if (!values.ok()) {
    CKN_FUZZ_CHECK(absl::IsInternal(values.status()), values.status().ToString());
    return CheckErrorMessage(values.status());
  }
  CKN_FUZZ_CHECK(values->size() == count, values->size());
  for (const float value : *values) CKN_FUZZ_CHECK(std::isfinite(value), value);
}

void RunModel(const ckn::Model& model) {
  const absl::StatusOr<ckn::Pipeline> pipeline = ckn::Pipeline::Create(model);
  if (!pipeline.ok()) return CheckErrorMessage(pipeline.status());
  const ckn::InputSpec& spec = model.networks.front().input;
  ckn::ImageU8 image{.height = spec.height, .width = spec.width, .channels = 3, .pixels = {}};
  for (int i = 0; i < image.height * image.width * image.channels; ++i) {
    image.pixels.push_back(static_cast<std::uint8_t>(i * i + 7 * i));
  }
  std::optional<ckn::Novelty> novelty;
  CheckFinite(pipeline->Encode(image, &novelty), static_cast<std::size_t>(pipeline->feature_count()));
  if (novelty) CKN_FUZZ_CHECK(novelty->rank >= 0 && novelty->rank <= 1, novelty->rank);
  const absl::StatusOr<std::vector<float>> scores = pipeline->Classify(image);
  CheckFinite(scores, static_cast<std::size_t>(pipeline->class_count()));
  if (!scores.ok()) return;
  for (const float p : pipeline->Probabilities(*scores)) CKN_FUZZ_CHECK(p >= 0 && p <= 1, p);
}

void ParseModel(std::string_view file) {
  const absl::StatusOr<ckn::Model> model = ckn::ParseModelFile(AsBytes(file), kLimits);
  if (!model.ok()) return CheckErrorMessage(model.status());
  // A second time around nothing changes any more.
  const std::string once = ckn::SerializeModelFile(*model);
  const absl::StatusOr<ckn::Model> again = ckn::ParseModelFile(AsBytes(once), {});
  CKN_FUZZ_CHECK(again.ok(), again.status().ToString());
  CKN_FUZZ_CHECK(ckn::SerializeModelFile(*again) == once, "");
  RunModel(*again);
  const auto onnx = ckn::ToOnnx({*again, std::string(64, '0'), once.size()}, "test");
  if (!onnx.ok()) CheckErrorMessage(onnx.status());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  google::protobuf::SetLogHandler(nullptr);
  FuzzInput input(data, size);
  const std::string_view file = input.Rest();
  ParseModel(file);
  ParseModel(WithChecksum(file));
  return 0;
}
