// ckn encode: the feature vectors of a data set or of image files, as a NumPy file.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/cpu_quota.h"
#include "server/base/npy.h"
#include "server/base/regular_file.h"
#include "server/base/status.h"
#include "server/base/thread_pool.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/image/decode.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"

namespace ckn {
namespace {

struct EncodeFlags {
  std::string file, data, split = "test", out;
  std::vector<std::string> images;
  int threads = 0;
};

// Messages do not name the path.
absl::StatusOr<ImageU8> ReadImage(const std::string& path) {
  CKN_ASSIGN_OR_RETURN(const std::string file, ReadWholeFile(path));
  return Decode(std::as_bytes(std::span(file)), DecodeLimits());
}

// Writes row after row in blocks, so that memory does not grow with the number of images.
absl::Status EncodeAll(const Pipeline& pipeline, std::size_t count,
                       const std::function<absl::StatusOr<ImageU8>(std::size_t i)>& image_at,
                       const std::function<std::string(std::size_t i)>& name_of, ThreadPool& pool, NpyWriter& writer) {
  constexpr std::size_t kBlock = 256;
  const auto features = static_cast<std::size_t>(pipeline.feature_count());
  std::vector<float> rows(kBlock * features);
  std::vector<absl::Status> errors(kBlock);
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t block = std::min(kBlock, count - first);
    pool.ParallelFor(block, [&](std::size_t i, int) {
      const auto encode = [&]() -> absl::Status {
        CKN_ASSIGN_OR_RETURN(const ImageU8 image, image_at(first + i));
        CKN_ASSIGN_OR_RETURN(const std::vector<float> row, pipeline.Encode(image));
        std::copy(row.begin(), row.end(), rows.begin() + static_cast<std::ptrdiff_t>(i * features));
        return absl::OkStatus();
      };
      errors[i] = Annotate(encode(), name_of(first + i));
    });
    for (std::size_t i = 0; i < block; ++i) CKN_RETURN_IF_ERROR(errors[i]);
    CKN_RETURN_IF_ERROR(writer.Append(std::span(rows).first(block * features)));
  }
  return absl::OkStatus();
}

absl::Status RunEncode(const EncodeFlags& flags) {
  std::vector<std::string> inputs = flags.images;
  inputs.push_back(flags.file);
  CKN_RETURN_IF_ERROR(CheckOutput(flags.out, inputs));
  CKN_ASSIGN_OR_RETURN(const LoadedModel loaded, ReadModelFile(flags.file));
  CKN_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Create(loaded.model));
  std::optional<Dataset> data;
  if (!flags.data.empty()) {
    CKN_ASSIGN_OR_RETURN(data, LoadSplit(flags.data, flags.split, StretchSize(loaded.model.networks.front().input)));
  }
  const std::size_t count = data ? data->size() : flags.images.size();
  const auto image_at = [&](std::size_t i) -> absl::StatusOr<ImageU8> {
    if (data) return data->Image(i);
    return ReadImage(flags.images[i]);
  };
  const auto name_of = [&](std::size_t i) { return data ? absl::StrCat(flags.data, ": image ", i) : flags.images[i]; };

  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(count), pipeline.feature_count()};
  CKN_ASSIGN_OR_RETURN(NpyWriter writer, NpyWriter::Create(flags.out, shape));
  ThreadPool pool(flags.threads > 0 ? flags.threads : AvailableCpus());
  CKN_RETURN_IF_ERROR(EncodeAll(pipeline, count, image_at, name_of, pool, writer));
  CKN_RETURN_IF_ERROR(writer.Close());
  std::fprintf(stderr, "%s: %zu image%s, float32 [%zu][%d]\n", flags.out.c_str(), count, count == 1 ? "" : "s", count,
               pipeline.feature_count());
  return absl::OkStatus();
}

}  // namespace

void AddEncodeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<EncodeFlags>();
  CLI::App* const command = app.add_subcommand("encode", "Write the feature vectors of images to a NumPy file");
  command->footer(
      "Example:\n"
      "  ckn encode models/mnist.ckn --data mnist:DIR --split train --out features.npy\n"
      "The array is float32 [images][features]: the last map of the network, centred and scaled, as the classifier\n"
      "sees it. Rows are in the order of the data set or of the command line.");
  command->add_option("FILE", flags->file, "Model file")->required();
  CLI::Option_group* const source = command->add_option_group("Source");
  AddDataOption(*source, flags->data);
  source->add_option("--images", flags->images, "Image files: PNG, JPEG, WebP, BMP, TIFF or PNM")->type_name("PATH");
  source->require_option(1);
  command->add_option("--out", flags->out, "File to write")->type_name("NPY")->required();
  AddSplitOption(*command, flags->split);
  AddThreadsOption(*command, flags->threads);
  command->callback([flags, &exit_code] { exit_code = ExitCode("encode", RunEncode(*flags)); });
}

}  // namespace ckn
