// ckn merge: one array from the shards of ckn encode --shard.
#include <cstdio>
#include <memory>
#include <string>

#include "server/base/status.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/training/feature_shards.h"

namespace ckn {
namespace {

struct MergeFlags {
  std::string folder, out;
};

absl::Status RunMerge(const MergeFlags& flags) {
  CKN_ASSIGN_OR_RETURN(const FeatureSource source, MergeShards(flags.folder, flags.out));
  std::fprintf(stderr, "%s: model %s, %s: float32 [%lld][%d]\n", flags.out.c_str(), source.model.c_str(),
               source.data.c_str(), static_cast<long long>(source.images), source.features);
  return absl::OkStatus();
}

}  // namespace

void AddMergeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<MergeFlags>();
  CLI::App* const command = app.add_subcommand("merge", "Join the shards of ckn encode --shard into one NumPy file");
  command->footer(
      "Example:\n"
      "  ckn merge shards --out features.npy\n"
      "Checks that all shards are there, belong together and are as they were written. The file is the one that\n"
      "ckn encode writes without --shard. ckn refit --features takes the shards as they are.");
  command->add_option("FOLDER", flags->folder, "Folder of the shards")->required();
  command->add_option("--out", flags->out, "File to write")->type_name("NPY")->required();
  command->callback([flags, &exit_code] { exit_code = ExitCode("merge", RunMerge(*flags)); });
}

}  // namespace ckn
