// What the work of a call costs without a server: decoding and classifying image files, on one thread.
//   in_process_benchmark MODEL SECONDS IMAGE...
// Prints JSON: images, cpu_us (processor time an image, mean), p50_us (an image).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/base/resource_usage.h"
#include "server/base/status.h"
#include "server/image/decode.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"

namespace ckn {
namespace {

using SteadyClock = std::chrono::steady_clock;

absl::Status Classify(const Pipeline& pipeline, const std::string& file) {
  CKN_ASSIGN_OR_RETURN(const ImageU8 image, Decode(std::as_bytes(std::span(file))));
  std::optional<Novelty> novelty;
  CKN_ASSIGN_OR_RETURN(const std::vector<float> scores, pipeline.Classify(image, &novelty));
  static volatile std::size_t used;
  used = pipeline.Probabilities(scores).size();
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::ordered_json> Measure(const std::string& model, double seconds,
                                               const std::vector<std::string>& paths) {
  CKN_ASSIGN_OR_RETURN(const LoadedModel loaded, ReadModelFile(model));
  CKN_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Create(loaded.model));
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    CKN_RETURN_IF_ERROR(Annotate(Classify(pipeline, files.back()), path));  // warms up, too
  }
  std::vector<double> times;
  const double cpu = ProcessCpuSeconds();
  const auto start = SteadyClock::now();
  auto begin = start;
  while (begin - start < std::chrono::duration<double>(seconds)) {
    CKN_RETURN_IF_ERROR(Classify(pipeline, files[times.size() % files.size()]));
    const auto end = SteadyClock::now();
    times.push_back(1e6 * std::chrono::duration<double>(end - begin).count());
    begin = end;
  }
  const double cpu_us = 1e6 * (ProcessCpuSeconds() - cpu) / static_cast<double>(times.size());
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return nlohmann::ordered_json{{"images", times.size()}, {"cpu_us", cpu_us}, {"p50_us", times[times.size() / 2]}};
}

}  // namespace
}  // namespace ckn

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: in_process_benchmark MODEL SECONDS IMAGE...\n");
    return 2;
  }
  const auto result = ckn::Measure(argv[1], std::atof(argv[2]), std::vector<std::string>(argv + 3, argv + argc));
  if (!result.ok()) {
    std::fprintf(stderr, "in_process_benchmark: %s\n", std::string(result.status().message()).c_str());
    return 1;
  }
  std::printf("%s\n", result->dump().c_str());
  return 0;
}
