// ckn export: a model for programs that run ONNX.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/atomic_file.h"
#include "server/base/status.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/store/model_file.h"
#include "server/store/onnx_export.h"

namespace ckn {
namespace {

struct ExportFlags {
  std::string file, onnx;
};

// "scores [N][10]".
std::string Describe(const onnx::ValueInfoProto& value) {
  std::string text = absl::StrCat(value.name(), " ");
  for (const onnx::TensorShapeProto::Dimension& dim : value.type().tensor_type().shape().dim()) {
    absl::StrAppend(&text, "[", dim.dim_param(), dim.dim_param().empty() ? absl::StrCat(dim.dim_value()) : "", "]");
  }
  return text;
}

absl::Status RunExport(const ExportFlags& flags) {
  CKN_RETURN_IF_ERROR(CheckOutput(flags.onnx, {flags.file}));
  CKN_ASSIGN_OR_RETURN(const LoadedModel loaded, ReadModelFile(flags.file));
  const absl::StatusOr<onnx::ModelProto> model = ToOnnx(loaded, CKN_VERSION);
  CKN_RETURN_IF_ERROR(Annotate(model.status(), flags.file));
  std::string bytes;
  if (!model->SerializeToString(&bytes)) {
    return absl::InternalError(absl::StrCat(flags.onnx, ": the ONNX model cannot be serialised"));
  }
  CKN_RETURN_IF_ERROR(WriteFileAtomically(flags.onnx, bytes));
  const std::string outputs =
      absl::StrJoin(model->graph().output(), ", ",
                    [](std::string* out, const onnx::ValueInfoProto& value) { absl::StrAppend(out, Describe(value)); });
  std::fprintf(stderr, "%s: %s bytes, %s -> %s\n", flags.onnx.c_str(), Thousands(bytes.size()).c_str(),
               Describe(model->graph().input(0)).c_str(), outputs.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddExportCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* const command = app.add_subcommand("export", "Write a model as an ONNX file, for other programs to run");
  command->footer(
      "Example:\n"
      "  ckn export models/mnist.ckn --onnx mnist.onnx\n"
      "The graph takes \"image\", float32 [N][channels][height][width] with pixels in [0, 1] and of the model's size,\n"
      "and gives \"features\" in the order of ckn encode, \"scores\" (margins) and, when the model is calibrated,\n"
      "\"probabilities\". It needs operator set 13. The metadata ckn_classes holds the names of the classes, one a "
      "line.\n"
      "Decoding and resizing images is left to the program that runs it; novelty is not part of the graph.");
  command->add_option("FILE", flags->file, "Model file")->required();
  command->add_option("--onnx", flags->onnx, "File to write")->type_name("ONNX")->required();
  command->callback([flags, &exit_code] { exit_code = ExitCode("export", RunExport(*flags)); });
}

}  // namespace ckn
