// ckn bench: images a second of the encoder, and how near it comes to the machine's matrix product.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/cpu_quota.h"
#include "server/base/helpers.h"
#include "server/base/matrix.h"
#include "server/base/number_between.h"
#include "server/base/resource_usage.h"
#include "server/base/status.h"
#include "server/base/thread_pool.h"
#include "server/commands/commands.h"
#include "server/commands/common.h"
#include "server/feature_extractor.h"
#include "server/serving/executor.h"
#include "server/simd/gemm.h"
#include "server/simd/target.h"
#include "server/store/model_file.h"
#include "server/training/recipe.h"

namespace ckn {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct BenchFlags {
  std::vector<std::string> files, architectures, recipes;
  std::vector<int> sizes, batches{1, 32}, threads{0};
  double seconds = 1;
  std::string precision = PrecisionName(Precision::kFloat32);
  bool json = false;
  AllocatedBytes allocated_bytes = nullptr;
};

// A network to measure.
struct Subject {
  Subject(std::string network, Precision precision) : name(std::move(network)), extractor(precision) {}
  std::string name;
  FeatureExtractor extractor;
  int height = 0, width = 0, channels = 0;
  double flop = 0;  // of the products, an image
};

struct Measurement {
  int batch = 0, threads = 0;
  double images_per_second = 0;        // by the median batch
  double p50 = 0, p99 = 0;             // milliseconds a batch
  double gflops = 0, peak_gflops = 0;  // of the products; of the machine's matrix product with as many threads
  double memory_mib = 0;               // of the process, at most, while it ran
  double allocated_bytes = 0;          // an image, once the threads have seen one; if they are counted
};

// The part of one network; the second map of `mirror` counts.
double ProductFlop(const InputSpec& input, const std::vector<Layer>& layers) {
  MapShape shape{input.height, input.width, input.MapChannels()};
  double flop = 0;
  for (const Layer& layer : layers) {
    const double places = static_cast<double>(ActivationSize(shape.height, layer.patch_size)) *
                          ActivationSize(shape.width, layer.patch_size);
    flop += 2 * places * layer.filter_count() * layer.patch_dim();
    shape = *OutputShape(layer, shape);  // the extractor has taken these layers
  }
  return input.mirror ? 2 * flop : flop;
}

absl::Status AddNetwork(const InputSpec& input, const std::vector<Layer>& layers, Subject& subject) {
  CKN_RETURN_IF_ERROR(subject.extractor.Add(input, layers));
  subject.height = input.height;
  subject.width = input.width;
  subject.channels = input.channels;
  subject.flop += ProductFlop(input, layers);
  return absl::OkStatus();
}

// Random filters cost what learned ones do.
std::vector<Layer> RandomLayers(const NetworkPlan& plan) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<Layer> layers;
  for (const LayerPlan& layer_plan : plan.layers) {
    Layer layer = layer_plan.layer;
    layer.sigma = 0.7F;
    layer.filters.resize(layer_plan.filters, layer.patch_dim());
    const float scale = 1 / std::sqrt(static_cast<float>(layer.patch_dim()));
    for (float& value : layer.filters.reshaped()) value = scale * normal(rng);
    layer.eta.setOnes(layer_plan.filters);
    if (layer_plan.whiten) layer.whitening.setIdentity(layer.patch_dim(), layer.patch_dim());
    layers.push_back(std::move(layer));
  }
  return layers;
}

absl::StatusOr<Subject> OfRecipe(const v1::Recipe& recipe, int size, int channels, Precision precision) {
  const absl::StatusOr<std::vector<NetworkPlan>> plans = ResolveRecipes(recipe, size, size, channels);
  CKN_RETURN_IF_ERROR(Annotate(plans.status(), absl::StrFormat("%s, %d x %d pixels", recipe.name(), size, size)));
  Subject subject(recipe.name(), precision);
  for (const NetworkPlan& plan : *plans) CKN_RETURN_IF_ERROR(AddNetwork(plan.input, RandomLayers(plan), subject));
  return subject;
}

// size 0: that of the data set the architecture is for.
absl::StatusOr<Subject> OfArchitecture(const std::string& name, int size, Precision precision) {
  const bool cifar10 = absl::EndsWith(name, "cifar10");
  const bool stl10 = absl::EndsWith(name, "stl10");
  if (size == 0) size = cifar10 ? 32 : stl10 ? 96 : 28;
  CKN_ASSIGN_OR_RETURN(const v1::Recipe recipe, BuiltInRecipe(name));
  return OfRecipe(recipe, size, cifar10 || stl10 ? 3 : 1, precision);
}

// size 0: the recipe's. Images are gray unless the recipe says otherwise.
absl::StatusOr<Subject> OfRecipeFile(const std::string& path, int size, Precision precision) {
  CKN_ASSIGN_OR_RETURN(v1::Recipe recipe, ReadRecipeFile(path));
  if (recipe.name().empty()) recipe.set_name(std::filesystem::path(path).stem().string());
  const v1::InputSpec& input = recipe.parts_size() > 0 ? recipe.parts(0).input() : recipe.input();
  if (size != 0 && input.height() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": --size: got ", size, ", but the recipe has a size of its own, ", input.height(), "x", input.width()));
  }
  if (size == 0) size = input.height();
  if (size == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": has no size of its own; give --size"));
  return OfRecipe(recipe, size, std::max(1, input.channels()), precision);
}

absl::StatusOr<Subject> OfModel(const std::string& file, Precision precision) {
  CKN_ASSIGN_OR_RETURN(const LoadedModel loaded, ReadModelFile(file));
  Subject subject(loaded.model.name, precision);
  for (const Network& network : loaded.model.networks) {
    CKN_RETURN_IF_ERROR(AddNetwork(network.input, network.layers, subject));
  }
  return subject;
}

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

constexpr double kGiB = 1 << 30;
constexpr double kMaxBatchBytes = 4 * kGiB;

constexpr Eigen::Index kProductSide = 384;  // three such matrices fit the second-level cache

struct Operands {
  RowMatrixF a = RowMatrixF::Ones(kProductSide, kProductSide);
  RowMatrixF b = a;
  RowMatrixF c = a;
};

// Square products in the second-level cache, all threads at the same time: the best of many short rounds, since other
// programs' work would make it less and all else look better than it is. GFLOP/s.
double MatrixProductPeak(int threads) {
  constexpr int kRounds = 50, kProducts = 2;
  ThreadPool pool(threads);
  std::vector<Operands> operands(static_cast<std::size_t>(threads));
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = SteadyClock::now();
    pool.ParallelFor(operands.size(), [&](std::size_t, int worker) {
      Operands& own = operands[static_cast<std::size_t>(worker)];
      for (int i = 0; i < kProducts; ++i) {
        Gemm(Op::kNone, Op::kNone, kProductSide, kProductSide, kProductSide, 1, own.a.data(), kProductSide,
             own.b.data(), kProductSide, 0, own.c.data(), kProductSide);
      }
    });
    const double flop = 2.0 * kProductSide * kProductSide * kProductSide * kProducts * static_cast<double>(threads);
    best = std::max(best, 1e-9 * flop / SecondsSince(start));
  }
  return best;
}

// The images of a batch go to the workers as in ckn serve, the calling thread being one of them; what is left idle
// helps with the images in work.
absl::StatusOr<Measurement> Measure(const Subject& subject, int batch, int threads, double peak,
                                    const BenchFlags& flags) {
  const double pixels = static_cast<double>(subject.height) * subject.width * subject.channels;
  if (const double bytes = batch * (pixels + 4.0 * subject.extractor.feature_count()); bytes > kMaxBatchBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: a batch of %d images and their features takes %.1f GiB, "
                        "expected at most %.0f GiB; give a smaller --batch",
                        subject.name, batch, bytes / kGiB, kMaxBatchBytes / kGiB));
  }
  std::mt19937 rng(2);
  std::vector<ImageU8> images(static_cast<std::size_t>(batch));
  for (ImageU8& image : images) {
    image = {subject.height, subject.width, subject.channels, {}};
    image.pixels.resize(static_cast<std::size_t>(subject.height) * subject.width * subject.channels);
    for (std::uint8_t& pixel : image.pixels) pixel = static_cast<std::uint8_t>(rng());
  }
  RowMatrixF features(batch, subject.extractor.feature_count());
  std::vector<absl::Status> statuses(images.size());
  Executor workers({.threads = threads - 1}, nullptr);
  const Helpers::Scope scope(&workers);
  const auto run = [&] {
    workers.Share(images.size(), [&](std::size_t i) {
      statuses[i] = subject.extractor.Extract(
          images[i], {features.row(static_cast<Eigen::Index>(i)).data(), static_cast<std::size_t>(features.cols())});
    });
  };
  ResetPeakMemory();
  run();
  for (const absl::Status& status : statuses) CKN_RETURN_IF_ERROR(status);
  constexpr std::size_t kMinBatches = 5;
  std::vector<double> times;
  const auto start = SteadyClock::now();
  while (times.size() < kMinBatches || SecondsSince(start) < flags.seconds) {
    const auto begin = SteadyClock::now();
    run();
    times.push_back(SecondsSince(begin));
  }
  std::ranges::sort(times);
  Measurement result;
  if (flags.allocated_bytes != nullptr) {
    const std::int64_t before = flags.allocated_bytes();
    for (std::size_t i = 0; i < kMinBatches; ++i) run();
    const auto bytes = static_cast<double>(flags.allocated_bytes() - before);
    result.allocated_bytes = bytes / static_cast<double>(kMinBatches * images.size());
  }
  result.batch = batch;
  result.threads = threads;
  const double median = times[times.size() / 2];
  result.p50 = 1e3 * median;
  result.p99 = 1e3 * times[std::min(times.size() - 1, times.size() * 99 / 100)];
  result.images_per_second = batch / median;
  result.gflops = 1e-9 * subject.flop * result.images_per_second;
  result.peak_gflops = peak;
  result.memory_mib = PeakMemoryMib();
  return result;
}

void PrintRow(const Subject& subject, const Measurement& row, bool counted) {
  std::printf("%-18s %9s %6d %8d %10.0f %9.3f %9.3f %8.1f %6.0f %% %8.0f", subject.name.c_str(),
              absl::StrFormat("%dx%dx%d", subject.height, subject.width, subject.channels).c_str(), row.batch,
              row.threads, row.images_per_second, row.p50, row.p99, row.gflops, 100 * row.gflops / row.peak_gflops,
              row.memory_mib);
  if (counted) std::printf(" %9.0f", row.allocated_bytes);
  std::printf("\n");
  std::fflush(stdout);
}

Json RowJson(const Subject& subject, const Measurement& row, bool counted) {
  Json json = {{"network", subject.name},
               {"height", subject.height},
               {"width", subject.width},
               {"channels", subject.channels},
               {"precision", PrecisionName(subject.extractor.precision())},
               {"features", subject.extractor.feature_count()},
               {"mflop_per_image", 1e-6 * subject.flop},
               {"batch", row.batch},
               {"threads", row.threads},
               {"images_per_second", row.images_per_second},
               {"p50_ms", row.p50},
               {"p99_ms", row.p99},
               {"gflops", row.gflops},
               {"matrix_product_gflops", row.peak_gflops},
               {"peak_memory_mib", row.memory_mib}};
  if (counted) json["allocated_bytes_per_image"] = row.allocated_bytes;
  return json;
}

absl::Status RunBench(const BenchFlags& flags) {
  const Precision precision = ParsePrecision(flags.precision);
  std::vector<Subject> subjects;
  for (const std::string& file : flags.files) {
    CKN_ASSIGN_OR_RETURN(Subject subject, OfModel(file, precision));
    subjects.push_back(std::move(subject));
  }
  std::vector<int> sizes = flags.sizes;
  if (sizes.empty()) sizes.push_back(0);
  for (const std::string& name : flags.architectures) {
    for (const int size : sizes) {
      CKN_ASSIGN_OR_RETURN(Subject subject, OfArchitecture(name, size, precision));
      subjects.push_back(std::move(subject));
    }
  }
  for (const std::string& file : flags.recipes) {
    for (const int size : sizes) {
      CKN_ASSIGN_OR_RETURN(Subject subject, OfRecipeFile(file, size, precision));
      subjects.push_back(std::move(subject));
    }
  }
  const bool counted = flags.allocated_bytes != nullptr;
  Json json;
  json["cpu"] = CpuName();
  const std::string simd = SimdTarget(precision == Precision::kBfloat16);
  json["simd"] = simd;
  json["rows"] = Json::array();
  if (!flags.json) {
    std::printf("%s, %s, %s\n\n%-18s %9s %6s %8s %10s %9s %9s %8s %8s %8s%s\n", CpuName().c_str(), simd.c_str(),
                flags.precision.c_str(), "network", "input", "batch", "threads", "images/s", "p50 ms", "p99 ms",
                "GFLOP/s", "of GEMM", "MiB", counted ? "   B/image" : "");
  }
  for (const int threads : flags.threads) {
    const int workers = threads > 0 ? threads : AvailableCpus();
    const double peak = MatrixProductPeak(workers);
    for (const Subject& subject : subjects) {
      for (const int batch : flags.batches) {
        CKN_ASSIGN_OR_RETURN(const Measurement row, Measure(subject, batch, workers, peak, flags));
        if (flags.json) {
          json["rows"].push_back(RowJson(subject, row, counted));
        } else {
          PrintRow(subject, row, counted);
        }
      }
    }
  }
  if (flags.json) std::printf("%s\n", json.dump(2).c_str());
  return absl::OkStatus();
}

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code, AllocatedBytes allocated_bytes) {
  auto flags = std::make_shared<BenchFlags>();
  flags->allocated_bytes = allocated_bytes;
  CLI::App* const command = app.add_subcommand("bench", "Measure how many images a second are encoded");
  command->footer(
      "Examples:\n"
      "  ckn bench models/mnist.ckn\n"
      "  ckn bench --arch ckn-pm-cifar10 --size 32 64 128 --batch 1 32 --threads 1 2\n"
      "Times are medians over batches, the images of a batch shared out to the threads; threads that would be idle\n"
      "help with the images in work if the network is large, as in ckn serve: --batch 1 shows the latency of a lone\n"
      "image. GFLOP/s count the multiplications and additions of each patch with each filter. \"of GEMM\" is against\n"
      "the best of some square float32 matrix products run just before with as many threads; layers of 2x2 and 3x3\n"
      "patches take fewer multiplications than are counted, so that it may be more than 100 %. MiB: the most memory "
      "of\n"
      "the process so far. CKN_SIMD=NAME in the environment keeps to an older instruction set (ckn --help).");
  auto* const files = command->add_option("FILES", flags->files, "Model files")->type_name("FILE");
  auto* const architectures =
      command->add_option("--arch", flags->architectures, "Architectures by name, with random filters")
          ->check(CLI::IsMember(BuiltInRecipeNames()))
          ->type_name("NAME");
  auto* const recipes =
      command->add_option("--recipe", flags->recipes, "Recipe files, with random filters")->type_name("FILE");
  command
      ->add_option("--size", flags->sizes,
                   "Sides of the images of --arch and --recipe, in pixels; default: the architecture's data set's")
      ->check(CLI::Range(1, 8192))
      ->type_name("N");
  command->add_option("--batch", flags->batches, "Images at a time")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--threads", flags->threads, "Threads; 0: as many as the process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--seconds", flags->seconds, "Time for each row; at least five batches are run")
      ->check(NumberBetween(0.0, 3600.0))
      ->capture_default_str()
      ->type_name("X");
  AddPrecisionOption(*command, flags->precision);
  command->add_flag("--json", flags->json, "Print JSON instead of a table");
  command->callback([flags, files, architectures, recipes, &exit_code] {
    const bool sized = !architectures->empty() || !recipes->empty();
    if (files->empty() && !sized) throw CLI::RequiredError("ckn bench: a model file, --arch or --recipe");
    if (!flags->sizes.empty() && !sized) throw CLI::RequiresError("--size", "--arch or --recipe");
    exit_code = ExitCode("bench", RunBench(*flags));
  });
}

}  // namespace ckn
