// Writes small valid inputs for every fuzz target, from which a corpus can be grown: FOLDER/TARGET/*.
// Usage: write_fuzz_seeds FOLDER
#include <zlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckn/v1/inference.pb.h"
#include "inference/open_inference.pb.h"
#include "server/base/regular_file.h"
#include "server/base/sha256.h"
#include "server/store/model_file.h"
#include "server/training/feature_shards.h"
#include "tests/image/image_files.h"
#include "tests/testing/model_kinds.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn::testing {
namespace {

namespace fs = std::filesystem;

class Seeds {
 public:
  explicit Seeds(fs::path folder) : folder_(std::move(folder)) {}

  void Add(const std::string& target, const std::string& name, const std::string& bytes) {
    fs::create_directories(folder_ / target);
    std::ofstream file(folder_ / target / name, std::ios::binary);
    file << bytes;
    file.close();
    ok_ = ok_ && file.good();
  }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  const fs::path folder_;
  bool ok_ = true;
};

// A part of an input, see FuzzInput.
std::string Part(const std::string& bytes) { return Number(bytes.size(), 4) + bytes; }

struct ImageFile {
  const char* name;
  std::string bytes;
};

std::vector<ImageFile> ImageFiles() {
  const ImageU8 gray = CountingImage(8, 8, 1);
  const ImageU8 colour = CountingImage(7, 9, 3);
  const ImageU8 four = CountingImage(6, 5, 4);
  const std::string tiff_pixels(gray.pixels.begin(), gray.pixels.end());
  const std::string colour_pixels(colour.pixels.begin(), colour.pixels.end());
  return {
      {"gray.png", PngFile(gray)},
      {"colour.png", PngFile(colour, PngChunk("eXIf", ExifBlock(6)))},
      {"interlaced.png", InterlacedPng(colour)},
      {"gray16.png", PngFile(3, 2, 16, 0, {"abcdef", "ghijkl"})},
      {"gray_alpha.png", PngFile(3, 2, 8, 4, {"abcdef", "ghijkl"})},
      {"rgba.png", PngFile(2, 2, 8, 6, {"abcdefgh", "ijklmnop"})},
      {"bits.png", PngFile(9, 2, 1, 0, {"ab", "cd"})},
      {"palette.png", PngFile(4, 1, 2, 3, {"a"}, PngChunk("PLTE", "abcdefghijkl") + PngChunk("tRNS", "ab"))},
      {"gray.jpg", JpegFile(gray)},
      {"colour.jpg", WithExif(JpegFile(colour), ExifBlock(3, true))},
      {"progressive.jpg", JpegFile(colour, {.progressive = true})},
      {"scans.jpg", JpegFile(colour, {.separate_scans = true})},
      {"cmyk.jpg", JpegFile(four, {.cmyk = true})},
      {"lossless.webp", WebpFile(colour)},
      {"exif.webp", WebpFile(colour, ExifBlock(8))},
      {"gray.tif", TiffFile(8, 8, tiff_pixels)},
      {"big_endian.tif", TiffFile(8, 8, tiff_pixels, {.orientation = 5, .rows_per_strip = 3, .big_endian = true})},
      {"colour.tif", TiffFile(9, 7, colour_pixels, {.photometric = 2, .samples = 3})},
      {"gray16.tif", TiffFile(8, 4, tiff_pixels, {.bits = 16})},
      {"rgba.tif", TiffFile(4, 4, tiff_pixels, {.photometric = 2, .samples = 4, .extra_sample = 2})},
      {"bits.tif", TiffFile(8, 8, tiff_pixels.substr(0, 8), {.bits = 1, .photometric = 0})},
      {"colour.bmp", BmpFile(colour)},
      {"rgba.bmp", BmpFile(four)},
      {"p1.pbm", "P1\n# comment\n3 2\n1 0 1\n010\n"},
      {"p2.pgm", "P2 3 2 15 0 1 2 3 4 15\n"},
      {"p3.ppm", "P3\n1 2\n255\n1 2 3 4 5 255\n"},
      {"p4.pbm", "P4 9 2\nabcd"},
      {"p5.pgm", "P5 3 2 65535\nabcdefghijkl"},
      {"p6.ppm", "P6 2 2 255\nabcdefghijkl"},
  };
}

void AddImages(Seeds& seeds) {
  for (const ImageFile& file : ImageFiles()) seeds.Add("decode", file.name, file.bytes);
}

void AddModels(Seeds& seeds) {
  seeds.Add("model_file", "tiny", SerializeModelFile(TinyModel({.height = 4, .width = 4, .filters = 2})));
  Model novelty = TinyModel({.name = "novelty", .height = 5, .width = 4, .channels = 3, .filters = 2});
  novelty.residual_quantiles = {0, 0.5F, 1};
  novelty.svm.probability_scale = 2;
  novelty.networks.front().input.resize = ResizePolicy::kStretch;
  novelty.networks.front().input.mirror = true;
  seeds.Add("model_file", "novelty", SerializeModelFile(novelty));
  for (const Model& model : ModelsOfAllKinds()) {
    // The others are like these, only larger.
    if (const std::string file = SerializeModelFile(model); file.size() < 20000)
      seeds.Add("model_file", model.name, file);
  }
}

template <typename Request>
Request WithImages(const std::string& model, const std::vector<std::string>& files) {
  Request request;
  request.set_model(model);
  for (const std::string& file : files) request.add_images()->set_encoded(file);
  return request;
}

// A call that is not cancelled.
std::string Call(int method, const google::protobuf::Message& request) {
  return std::string(1, static_cast<char>(method)) + request.SerializeAsString();
}

void AddNativeRequests(Seeds& seeds) {
  const std::string pnm = EncodePnm(TinyImage(TinyModel(), 1));
  auto classify = WithImages<v1::ClassifyRequest>("tiny", {pnm, "not an image", PngFile(CountingImage(8, 8, 1))});
  classify.set_top_k(2);
  classify.set_version("1");
  seeds.Add("native_api", "classify", Call(0, classify));
  auto pixels = WithImages<v1::ClassifyRequest>("stretch", {pnm});
  v1::Pixels& raw = *pixels.add_images()->mutable_pixels();
  raw.set_height(2);
  raw.set_width(3);
  raw.set_channels(3);
  raw.set_data("abcdefghijklmnopqr");
  pixels.set_top_k(100);
  seeds.Add("native_api", "pixels", Call(0, pixels));
  seeds.Add("native_api", "cancelled", Call(0x20, pixels));
  seeds.Add("native_api", "unnamed", Call(0, WithImages<v1::ClassifyRequest>("", {pnm})));
  seeds.Add("native_api", "encode", Call(1, WithImages<v1::EncodeRequest>("stretch", {pnm, pnm})));
  v1::GetModelRequest get;
  get.set_model("tiny");
  get.set_version("2");
  seeds.Add("native_api", "get_model", Call(2, get));
  seeds.Add("native_api", "list_models", Call(3, v1::ListModelsRequest()));
}

inference::ModelInferRequest InferRequest(const std::string& model, const std::string& tensor,
                                          const std::string& datatype, const std::vector<std::int64_t>& shape) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  request.set_id("7");
  auto& input = *request.add_inputs();
  input.set_name(tensor);
  input.set_datatype(datatype);
  for (const std::int64_t size : shape) input.add_shape(size);
  return request;
}

void AddInferRequests(Seeds& seeds) {
  const std::string pnm = EncodePnm(TinyImage(TinyModel(), 1));
  auto files = InferRequest("tiny", "image", "BYTES", {2, 1});
  for (int i = 0; i < 2; ++i) files.mutable_inputs(0)->mutable_contents()->add_bytes_contents(pnm);
  seeds.Add("open_inference", "files", Call(0, files));
  seeds.Add("open_inference", "cancelled", Call(0x30, files));

  auto raw_files = InferRequest("stretch", "image", "BYTES", {2});
  raw_files.set_model_version("1");
  raw_files.add_raw_input_contents(Part(pnm) + Part(PngFile(CountingImage(7, 9, 3))));
  for (const char* const name : {"label", "scores", "probabilities", "features", "novelty"}) {
    raw_files.add_outputs()->set_name(name);
  }
  (*raw_files.mutable_outputs(1)->mutable_parameters())["classification"].set_int64_param(2);
  seeds.Add("open_inference", "raw_files", Call(0, raw_files));

  auto bytes = InferRequest("stretch", "pixels", "UINT8", {1, 3, 2, 2});
  bytes.add_raw_input_contents("abcdefghijkl");
  (*bytes.mutable_inputs(0)->mutable_parameters())["layout"].set_string_param("NCHW");
  seeds.Add("open_inference", "raw_uint8", Call(0, bytes));
  auto numbers = InferRequest("stretch", "pixels", "UINT8", {2, 2, 1});
  for (const std::uint32_t value : {1, 2, 3, 255})
    numbers.mutable_inputs(0)->mutable_contents()->add_uint_contents(value);
  numbers.add_outputs()->set_name("novelty");
  seeds.Add("open_inference", "uint8", Call(0, numbers));
  auto floats = InferRequest("stretch", "pixels", "FP32", {1, 2, 2, 1});
  for (const float value : {0.0F, 0.25F, 0.5F, 1.0F})
    floats.mutable_inputs(0)->mutable_contents()->add_fp32_contents(value);
  seeds.Add("open_inference", "fp32", Call(0, floats));
  auto raw_floats = InferRequest("stretch", "pixels", "FP32", {1, 1, 2, 1});
  raw_floats.add_raw_input_contents(std::string("\0\0\x80\x3f\0\0\0\x3f", 8));
  seeds.Add("open_inference", "raw_fp32", Call(0, raw_floats));

  inference::ModelMetadataRequest model;
  model.set_name("tiny");
  for (int method = 1; method < 7; ++method) {
    seeds.Add("open_inference", absl::StrCat("method", method), Call(method, model));
  }
}

void AddRecipes(Seeds& seeds) {
  seeds.Add("recipe", "layers",
            "# a comment\nname: \"three\" input { height: 64 width: 64 channels: 3 resize: RESIZE_POLICY_STRETCH "
            "mirror: true }\n"
            "layers { patch_size: 3 filters: 64 subsampling: 2 whiten: true whitening_floor: 0.01 }\n"
            "layers { patch_size: 2 filters: 128 output_size: 4 sigma: 0.5 pooling_support: 2 }\n");
  seeds.Add("recipe", "gradient",
            "input { map: INPUT_MAP_GRADIENT }\nlayers { patch_size: 1 filters: 12 subsampling: 2 }\n"
            "layers { patch_size: 3 filters: 50 output_size: 4 sigma_quantile: 0.2 subtract_patch_mean: false }\n");
  seeds.Add("recipe", "parts", "name: 'co' parts { name: 'ckn-gm1' } parts { name: 'ckn-pm1' }");
}

void AddSettings(Seeds& seeds) {
  seeds.Add("settings", "file",
            Part("") + Part("") +
                "# limits\nmax-images = 64\nlisten = 127.0.0.1:0  # any port\nhttp=off\n\nmodel-control = true\n");
  seeds.Add("settings", "environment", Part("12") + Part("[::1]:8500") + "access-log = json\nslow-ms = 10\n");
  seeds.Add("settings", "tls", Part("") + Part("") + "tls-cert = a.pem\ntls-key = b.pem\ntls-client-ca = c.pem\n");
}

std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()) + 32, '\0');
  std::string in = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void AddDatasets(Seeds& seeds) {
  const auto kind = [](int number) { return std::string(1, static_cast<char>(number)); };
  const std::string labels = Number(2049, 4, true) + Number(2, 4, true) + std::string("\0\1", 2);
  const std::string images =
      Number(2051, 4, true) + Number(2, 4, true) + Number(2, 4, true) + Number(3, 4, true) + "abcdefghijkl";
  seeds.Add("dataset", "idx", kind(0) + Part(labels) + Part(images) + Part("zero\none\n"));
  seeds.Add("dataset", "idx_gz", kind(1) + Part(Gzip(labels)) + Part(Gzip(images)) + Part(""));
  seeds.Add("dataset", "cifar10", kind(2) + Part("") + Part("\3" + std::string(3072, 'a')) + Part(""));
  const std::string stl_image(std::size_t{96} * 96 * 3, 'b');
  seeds.Add("dataset", "stl10_test", kind(3) + Part("\2") + Part(stl_image) + Part(""));
  seeds.Add("dataset", "stl10_train", kind(4) + Part("\1") + Part(stl_image) + Part("0\n0\n"));
  seeds.Add("dataset", "images",
            kind(5) + Part("P5 2 1 255\nab") + Part(PngFile(CountingImage(2, 3, 1))) + Part("P6 1 1 255\nabc"));
}

// The manifests of two shards, without their arrays.
void AddShards(Seeds& seeds) {
  FeatureSource source;
  source.model = "tiny";
  source.data = "mnist:digits";
  source.split = "train";
  source.images = 3;
  source.features = 2;
  const TempDir folder;
  const auto manifests = [&](const ShardRows& first, const ShardRows& second) {
    std::string parts;
    for (int i = 0; i < 2; ++i) {
      const Shard shard{.index = i, .count = 2};
      std::filesystem::path path = ShardPath(folder.path(), shard);
      (void)FinishShard(folder.path(), shard, source, Sha256Hex("array"), i == 0 ? first : second);
      const std::string manifest = ReadWholeFile(path.replace_extension(".json")).value_or("");
      parts += Part(manifest.substr(0, manifest.rfind(",\"manifest_sha256\"")) + "}");  // the target adds it
    }
    return parts;
  };
  seeds.Add("shards", "standardized", manifests({.labels = {0, 1}, .residuals = {}}, {.labels = {1}, .residuals = {}}));
  source.standardized = false;
  source.class_names = {"a", "b"};
  source.folds = {{0, 2}, {1}};
  source.decoders = "libpng 1";
  seeds.Add("shards", "unscaled",
            manifests({.labels = {0, 1}, .residuals = {{0.5F, 0.25F}}}, {.labels = {1}, .residuals = {{1e-9F}}}));
  source.class_names.clear();
  source.folds.clear();
  seeds.Add("shards", "files", manifests({}, {}));
}

}  // namespace
}  // namespace ckn::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_fuzz_seeds FOLDER\n");
    return 2;
  }
  ckn::testing::Seeds seeds(argv[1]);
  ckn::testing::AddImages(seeds);
  ckn::testing::AddModels(seeds);
  ckn::testing::AddNativeRequests(seeds);
  ckn::testing::AddInferRequests(seeds);
  ckn::testing::AddRecipes(seeds);
  ckn::testing::AddSettings(seeds);
  ckn::testing::AddDatasets(seeds);
  ckn::testing::AddShards(seeds);
  if (seeds.ok()) return 0;
  std::fprintf(stderr, "%s: cannot write\n", argv[1]);
  return 1;
}
