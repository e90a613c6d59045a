// ckn encode: the feature vectors of a data set or of image files, as a NumPy file.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/cpu_quota.h"
#include "server/base/npy.h"
#include "server/base/regular_file.h"
#include "server/base/sha256.h"
#include "server/base/status.h"
#include "server/base/thread_pool.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/image/decode.h"
#include "server/image/decoder_versions.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"
#include "server/training/feature_shards.h"

namespace ckn {
namespace {

struct EncodeFlags {
  std::string file, data, split = "test", out, shard, precision = PrecisionName(Precision::kFloat32);
  std::vector<std::string> images;
  int threads = 0;
  bool unscaled = false;
};

// Messages do not name the path.
absl::StatusOr<ImageU8> ReadImage(const std::string& path) {
  CKN_ASSIGN_OR_RETURN(const std::string file, ReadWholeFile(path));
  return Decode(std::as_bytes(std::span(file)), DecodeLimits());
}

// What is encoded, image by image.
struct Source {
  std::size_t count = 0;
  std::function<absl::StatusOr<ImageU8>(std::size_t i)> image;
  std::function<std::string(std::size_t i)> name;
};

bool AllFinite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// One image's row: standardised, or as the networks give it, then also their residuals if there is room for them.
absl::Status EncodeRow(const Pipeline& pipeline, const ImageU8& image, bool unscaled, std::span<float> row,
                       std::span<float> residuals) {
  if (!unscaled) {
    CKN_ASSIGN_OR_RETURN(const std::vector<float> features, pipeline.Encode(image));
    std::ranges::copy(features, row.begin());
    return absl::OkStatus();
  }
  CKN_RETURN_IF_ERROR(pipeline.extractor().Extract(image, row, residuals));
  if (AllFinite(row) && AllFinite(residuals)) return absl::OkStatus();
  return absl::InternalError("the model gives features that are not finite numbers");
}

// Writes the rows of some images, one after the other in blocks, so that memory does not grow with their number.
// `residuals` is as long as the networks whose residuals it gets. Returns the file's SHA-256.
absl::StatusOr<std::string> EncodeRows(const Pipeline& pipeline, const Source& source, const RowRange& range,
                                       const EncodeFlags& flags, const std::string& out,
                                       std::span<std::vector<float>> residuals = {}) {
  constexpr std::size_t kBlock = 256;
  const auto features = static_cast<std::size_t>(pipeline.feature_count());
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(range.count), pipeline.feature_count()};
  CKN_ASSIGN_OR_RETURN(NpyWriter writer, NpyWriter::Create(out, shape));
  ThreadPool pool(flags.threads > 0 ? flags.threads : AvailableCpus());
  std::vector<float> rows(kBlock * features);
  std::vector<float> block_residuals(kBlock * residuals.size());
  std::vector<absl::Status> errors(kBlock);
  const std::size_t end = range.first + range.count;
  for (std::size_t first = range.first; first < end; first += kBlock) {
    const std::size_t block = std::min(kBlock, end - first);
    pool.ParallelFor(block, [&](std::size_t i, int) {
      const auto encode = [&]() -> absl::Status {
        CKN_ASSIGN_OR_RETURN(const ImageU8 image, source.image(first + i));
        return EncodeRow(pipeline, image, flags.unscaled, std::span(rows).subspan(i * features, features),
                         std::span(block_residuals).subspan(i * residuals.size(), residuals.size()));
      };
      errors[i] = Annotate(encode(), source.name(first + i));
    });
    for (std::size_t i = 0; i < block; ++i) {
      CKN_RETURN_IF_ERROR(errors[i]);
      for (std::size_t k = 0; k < residuals.size(); ++k) {
        residuals[k].push_back(block_residuals[i * residuals.size() + k]);
      }
    }
    CKN_RETURN_IF_ERROR(writer.Append(std::span(rows).first(block * features)));
  }
  CKN_RETURN_IF_ERROR(writer.Close());
  std::fprintf(stderr, "%s: %zu image%s, float32 [%zu][%d]\n", out.c_str(), range.count, range.count == 1 ? "" : "s",
               range.count, pipeline.feature_count());
  return writer.Sha256();
}

absl::Status EncodeShard(const EncodeFlags& flags, const LoadedModel& loaded, const Pipeline& pipeline,
                         const Dataset* data, const Source& source) {
  CKN_ASSIGN_OR_RETURN(const Shard shard, ParseShard(flags.shard));
  FeatureSource of;
  of.model = loaded.model.name;
  // Rows of different precisions are not one array's.
  if (pipeline.precision() != Precision::kFloat32) absl::StrAppend(&of.model, ", ", flags.precision);
  of.model_sha256 = loaded.sha256;
  of.data = data != nullptr ? data->title : "files";
  of.data_sha256 =
      data != nullptr ? DatasetSha256(*data) : Sha256Hex(absl::StrJoin(flags.images, std::string(1, '\0')));
  of.split = data != nullptr ? flags.split : "";
  of.images = static_cast<std::int64_t>(source.count);
  of.features = pipeline.feature_count();
  of.standardized = !flags.unscaled;
  if (flags.unscaled) {
    of.decoders = DecoderVersionsText();
    if (data != nullptr) {
      of.class_names = data->class_names;
      of.has_class_names = data->has_class_names;
      of.folds = data->folds;
    }
  }
  std::error_code error;
  std::filesystem::create_directories(flags.out, error);
  if (error) return absl::FailedPreconditionError(absl::StrCat(flags.out, ": ", error.message()));
  const std::string path = ShardPath(flags.out, shard);
  CKN_ASSIGN_OR_RETURN(const bool done, ShardIsDone(flags.out, shard, of));
  if (done) {
    std::fprintf(stderr, "%s: is there already\n", path.c_str());
    return absl::OkStatus();
  }
  const RowRange range = RowsOf(shard, source.count);
  ShardRows rows;
  const FeatureExtractor& extractor = pipeline.extractor();
  if (flags.unscaled && extractor.has_residual()) rows.residuals.resize(extractor.network_count());
  CKN_ASSIGN_OR_RETURN(const std::string sha256, EncodeRows(pipeline, source, range, flags, path, rows.residuals));
  if (data != nullptr) {
    const auto first = data->labels.begin() + static_cast<std::ptrdiff_t>(range.first);
    rows.labels.assign(first, first + static_cast<std::ptrdiff_t>(range.count));
  }
  return FinishShard(flags.out, shard, of, sha256, rows);
}

absl::Status RunEncode(const EncodeFlags& flags) {
  std::vector<std::string> inputs = flags.images;
  inputs.push_back(flags.file);
  CKN_RETURN_IF_ERROR(CheckOutput(flags.out, inputs));
  CKN_ASSIGN_OR_RETURN(const LoadedModel loaded, ReadModelFile(flags.file));
  CKN_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Create(loaded.model, ParsePrecision(flags.precision)));
  std::optional<Dataset> data;
  if (!flags.data.empty()) {
    CKN_ASSIGN_OR_RETURN(data, LoadSplit(flags.data, flags.split, StretchSize(loaded.model.networks.front().input)));
  }
  const Source source{
      .count = data ? data->size() : flags.images.size(),
      .image = [&](std::size_t i) -> absl::StatusOr<ImageU8> {
        if (data) return data->Image(i);
        return ReadImage(flags.images[i]);
      },
      .name = [&](std::size_t i) { return data ? absl::StrCat(flags.data, ": image ", i) : flags.images[i]; }};
  if (!flags.shard.empty()) return EncodeShard(flags, loaded, pipeline, data ? &*data : nullptr, source);
  return EncodeRows(pipeline, source, {.first = 0, .count = source.count}, flags, flags.out).status();
}

}  // namespace

void AddEncodeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<EncodeFlags>();
  CLI::App* const command = app.add_subcommand("encode", "Write the feature vectors of images to a NumPy file");
  command->footer(
      "Example:\n"
      "  ckn encode models/mnist.ckn --data mnist:DIR --split train --out features.npy\n"
      "The array is float32 [images][features]: the last map of the network, centred and scaled, as the classifier\n"
      "sees it. Rows are in the order of the data set or of the command line.\n"
      "With --shard, many machines share the work, each with another I: --out is then a folder, one for all, into "
      "which\n"
      "each writes its rows and, last of all, a manifest. A shard that is there whole is not made again. ckn merge "
      "joins\n"
      "them. With --unscaled the rows are as the networks give them, and the manifest holds all else that training\n"
      "needs: ckn refit --features takes the folder instead of the data. Alone, a machine writes it with --shard "
      "0/1.");
  command->add_option("FILE", flags->file, "Model file")->required();
  CLI::Option_group* const source = command->add_option_group("Source");
  AddDataOption(*source, flags->data);
  source->add_option("--images", flags->images, "Image files: PNG, JPEG, WebP, BMP, TIFF or PNM")->type_name("PATH");
  source->require_option(1);
  command->add_option("--out", flags->out, "File to write; with --shard, folder for the shards")
      ->type_name("NPY")
      ->required();
  command->add_option("--shard", flags->shard, "Only part I, from 0, of N equal parts of the rows")
      ->type_name("I/N")
      ->check([](const std::string& text) { return std::string(ParseShard(text).status().message()); });
  command->add_flag("--unscaled", flags->unscaled, "Features before they are centred and scaled, to train on");
  AddSplitOption(*command, flags->split);
  AddPrecisionOption(*command, flags->precision);
  AddThreadsOption(*command, flags->threads);
  command->callback([flags, &exit_code] { exit_code = ExitCode("encode", RunEncode(*flags)); });
}

}  // namespace ckn
