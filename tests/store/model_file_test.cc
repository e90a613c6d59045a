#include "server/store/model_file.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/sha256.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TempDir;
using testing::TinyModel;

// A model of two layers with every field set.
Model FullModel() {
  Model model = TinyModel({.height = 10, .width = 9, .channels = 3, .filters = 4, .classes = 3});
  Network& network = model.networks.front();
  network.architecture = "ckn-x";
  Layer second;
  second.patch_size = 2;
  second.in_channels = 4;
  second.subsampling = 3;
  second.pooling_radius = 5;
  second.sigma = 0.25F;
  second.epsilon = 1e-4F;
  second.filters = RowMatrixF::Random(5, 16);
  second.eta = Eigen::VectorXf::Random(5).cwiseAbs();
  network.layers.push_back(second);
  network.layers[0].subtract_patch_mean = true;
  network.learning[0].set_pairs(1000);
  v1::LayerLearning learning;
  learning.set_pairs(300000);
  learning.set_iterations(77);
  learning.set_objective_start(0.5);
  learning.set_objective(0.25);
  learning.set_held_out_objective(0.3);
  learning.set_stop_reason("converged");
  learning.set_initialisation("kmeans");
  learning.set_principal_components(3);
  network.learning.push_back(learning);

  // 10 x 9 -> 8 x 7 -> 4 x 4 -> 3 x 3 -> 1 x 1.
  network.standardization.mean = Eigen::VectorXf::Random(5);
  model.svm.weights = RowMatrixF::Random(3, 5);
  model.svm.probability_scale = 2.5F;
  model.residual_quantiles = {-0.5F, 0.25F, 0.25F, 1};
  model.class_names = {"cat", "Grüße", "a b"};
  network.input.resize = ResizePolicy::kStretch;
  model.provenance.set_program_version("0.1.0");
  model.provenance.set_command("ckn train --arch x");
  model.provenance.set_architecture("ckn-x");
  model.provenance.set_dataset("mnist:x");
  model.provenance.set_dataset_sha256(std::string(64, 'a'));
  model.provenance.set_train_count(60000);
  model.provenance.set_seed(1);
  model.provenance.set_svm_c(4);
  model.provenance.set_validation("held-out");
  model.provenance.set_validation_error_percent(1.5);
  model.provenance.set_test_error_percent(0);
  model.provenance.set_test_count(10000);
  v1::ValidationPoint* point = model.provenance.add_validation_curve();
  point->set_svm_c(2);
  point->set_error_percent(3);
  return model;
}

std::span<const std::byte> AsBytes(const std::string& text) { return std::as_bytes(std::span<const char>(text)); }

absl::Status ParseError(const std::string& file, const ModelLimits& limits = {}) {
  return ParseModelFile(AsBytes(file), limits).status();
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void ExpectEqual(const Network& a, const Network& b) {
  EXPECT_EQ(a.architecture, b.architecture);
  EXPECT_EQ(a.input.height, b.input.height);
  EXPECT_EQ(a.input.width, b.input.width);
  EXPECT_EQ(a.input.channels, b.input.channels);
  EXPECT_EQ(a.input.resize, b.input.resize);
  EXPECT_EQ(a.input.map, b.input.map);
  EXPECT_EQ(a.input.mirror, b.input.mirror);
  ASSERT_EQ(a.layers.size(), b.layers.size());
  ASSERT_EQ(a.learning.size(), b.learning.size());
  for (std::size_t k = 0; k < a.layers.size(); ++k) {
    EXPECT_EQ(a.layers[k].patch_size, b.layers[k].patch_size);
    EXPECT_EQ(a.layers[k].in_channels, b.layers[k].in_channels);
    EXPECT_EQ(a.layers[k].subsampling, b.layers[k].subsampling);
    EXPECT_EQ(a.layers[k].pooling_radius, b.layers[k].pooling_radius);
    EXPECT_EQ(a.layers[k].subtract_patch_mean, b.layers[k].subtract_patch_mean);
    EXPECT_EQ(a.layers[k].learned, b.layers[k].learned);
    EXPECT_EQ(a.layers[k].sigma, b.layers[k].sigma);
    EXPECT_EQ(a.layers[k].epsilon, b.layers[k].epsilon);
    EXPECT_EQ(a.layers[k].filters, b.layers[k].filters);
    EXPECT_EQ(a.layers[k].eta, b.layers[k].eta);
    EXPECT_EQ(a.layers[k].projection, b.layers[k].projection);
    EXPECT_EQ(a.layers[k].whitening, b.layers[k].whitening);
    EXPECT_EQ(a.learning[k].SerializeAsString(), b.learning[k].SerializeAsString());
  }
  EXPECT_EQ(a.standardization.mean, b.standardization.mean);
  EXPECT_EQ(a.standardization.scale, b.standardization.scale);
}

void ExpectEqual(const Model& a, const Model& b) {
  EXPECT_EQ(a.name, b.name);
  ASSERT_EQ(a.networks.size(), b.networks.size());
  for (std::size_t i = 0; i < a.networks.size(); ++i) ExpectEqual(a.networks[i], b.networks[i]);
  EXPECT_EQ(a.svm.weights, b.svm.weights);
  EXPECT_EQ(a.svm.bias, b.svm.bias);
  EXPECT_EQ(a.svm.probability_scale, b.svm.probability_scale);
  EXPECT_EQ(a.class_names, b.class_names);
  EXPECT_EQ(a.residual_quantiles, b.residual_quantiles);
  EXPECT_EQ(a.provenance.SerializeAsString(), b.provenance.SerializeAsString());
}

// The networks of FullModel twice, the second one smaller.
Model TwoNetworks() {
  Model model = FullModel();
  Network second = model.networks.front();
  second.architecture = "ckn-y";
  second.layers.pop_back();
  second.learning.pop_back();
  second.standardization.mean = Eigen::VectorXf::Random(4 * 4 * 4);
  second.standardization.scale = 3;
  model.networks.push_back(std::move(second));
  model.svm.weights = RowMatrixF::Random(3, 5 + 64);
  return model;
}

TEST(ModelFileTest, SeveralNetworksComeBackAndAskForVersion3) {
  const Model model = TwoNetworks();
  const std::string file = SerializeModelFile(model);
  EXPECT_EQ(file[8], 3);
  const absl::StatusOr<Model> parsed = ParseModelFile(AsBytes(file), ModelLimits{});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ExpectEqual(model, *parsed);
}

TEST(ModelFileTest, NetworksThatDoNotFitTogetherAreRejected) {
  const auto refusal = [](auto change) {
    v1::Model proto = ToProto(TwoNetworks());
    change(proto);
    return std::string(FromProto(proto, {}).status().message());
  };
  EXPECT_EQ(refusal([](v1::Model&) {}), "");
  EXPECT_THAT(refusal([](v1::Model& m) { m.mutable_networks()->RemoveLast(); }),
              HasSubstr("networks: got 1, expected 2"));
  EXPECT_THAT(refusal([](v1::Model& m) { *m.mutable_input() = m.networks(0).input(); }),
              HasSubstr("got them beside 2 networks"));
  EXPECT_THAT(refusal([](v1::Model& m) { m.mutable_networks(1)->clear_layers(); }),
              HasSubstr("network 2: layers: got 0"));
  EXPECT_THAT(
      refusal([](v1::Model& m) { m.mutable_networks(1)->mutable_input()->set_resize(v1::RESIZE_POLICY_REJECT); }),
      HasSubstr("network 2: input: resize: expected the same"));
  EXPECT_THAT(refusal([](v1::Model& m) { m.mutable_networks(0)->set_architecture("\n"); }),
              HasSubstr("network 1: architecture"));
  // The map of the second network becomes larger by a column, and its features with it.
  EXPECT_THAT(refusal([](v1::Model& m) {
                v1::Network& second = *m.mutable_networks(1);
                second.mutable_input()->set_width(8);
                second.mutable_standardization()->mutable_mean()->resize(4 * 3 * 4 * 4);
              }),
              HasSubstr("network 2: input: got images of 10x8, expected 10x9 like the first network's"));
  EXPECT_THAT(refusal([](v1::Model& m) { m.mutable_svm()->set_features(5); }),
              HasSubstr("svm.features: got 5, expected 69"));
}

TEST(ModelFileTest, AProjectionComesBackAndAsksForVersion2) {
  Model model = FullModel();
  EXPECT_EQ(SerializeModelFile(model)[8], 1);
  model.networks[0].layers[1].projection = RowMatrixF::Random(5, 5);
  const std::string file = SerializeModelFile(model);
  EXPECT_EQ(file[8], 2);
  const absl::StatusOr<Model> parsed = ParseModelFile(std::as_bytes(std::span(file)), ModelLimits{});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ExpectEqual(model, *parsed);
}

TEST(ModelFileTest, AWhiteningComesBackAndAsksForVersion3) {
  Model model = FullModel();
  model.networks[0].layers[0].whitening = RowMatrixF::Random(27, 27);
  std::string file = SerializeModelFile(model);
  EXPECT_EQ(file[8], 3);
  const absl::StatusOr<Model> parsed = ParseModelFile(AsBytes(file), ModelLimits{});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ExpectEqual(model, *parsed);
  file[8] = 2;
  EXPECT_THAT(std::string(ParseError(file).message()), HasSubstr("got format version 2, expected 3 for what is in it"));
}

TEST(ModelFileTest, AMirroredInputComesBackAndAsksForVersion4) {
  Model model = FullModel();
  model.networks[0].input.mirror = true;
  std::string file = SerializeModelFile(model);
  EXPECT_EQ(file[8], 4);
  const absl::StatusOr<Model> parsed = ParseModelFile(AsBytes(file), ModelLimits{});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ExpectEqual(model, *parsed);
  file[8] = 1;  // an old reader would leave the mirror image out
  EXPECT_THAT(std::string(ParseError(file).message()), HasSubstr("got format version 1, expected 4 for what is in it"));
}

TEST(ModelFileTest, RoundTripKeepsEveryField) {
  for (const bool gradient : {false, true}) {
    Model model = FullModel();
    if (gradient) {
      Network& network = model.networks.front();
      network.input.map = InputMap::kGradient;
      network.layers[0].in_channels = 2;
      network.layers[0].filters = RowMatrixF::Random(4, 18);
      network.layers[0].learned = false;
    }
    const absl::StatusOr<Model> back = ParseModelFile(AsBytes(SerializeModelFile(model)), {});
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectEqual(model, *back);
  }
}

TEST(ModelFileTest, TheSameModelGivesTheSameBytes) {
  const std::string file = SerializeModelFile(FullModel());
  const absl::StatusOr<Model> back = ParseModelFile(AsBytes(file), {});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(SerializeModelFile(*back), file);
}

// FORMAT.md, byte by byte.
TEST(ModelFileTest, LayoutIsTheDocumentedOne) {
  const Model model = FullModel();
  const std::string file = SerializeModelFile(model);
  EXPECT_EQ(file.substr(0, 8),
            "\x89"
            "CKN\r\n\x1a\n");
  EXPECT_EQ(file.substr(8, 4), std::string("\x01\0\0\0", 4));
  EXPECT_EQ(file.substr(12, 4), std::string("\x38\0\0\0", 4));
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<unsigned char>(file[16 + static_cast<std::size_t>(i)]);
  const std::string payload = file.substr(56);
  EXPECT_EQ(length, payload.size());
  EXPECT_EQ(file.substr(24, 32), Sha256Digest(payload));
  v1::Model proto;
  ASSERT_TRUE(proto.ParseFromString(payload));
  const std::string& weights = proto.layers(1).weights();
  ASSERT_EQ(weights.size(), 5U * 16 * 4);
  // Little-endian float32 in row-major order: filter 2, weight 3.
  std::uint32_t bits = 0;
  for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(weights[(2 * 16 + 3) * 4 + i]);
  EXPECT_EQ(std::bit_cast<float>(bits), model.networks[0].layers[1].filters(2, 3));
}

TEST(ModelFileTest, EveryTruncationIsDataLoss) {
  const std::string file = SerializeModelFile(TinyModel());
  for (std::size_t length = 0; length < file.size(); ++length) {
    const absl::Status status = ParseError(file.substr(0, length));
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << length << " bytes: " << status;
  }
  EXPECT_THAT(std::string(ParseError("").message()), HasSubstr("not a model file"));
  EXPECT_THAT(std::string(ParseError(file.substr(0, 20)).message()),
              HasSubstr("truncated: got 20 bytes, expected a header of 56"));
  EXPECT_THAT(std::string(ParseError(file.substr(0, 60)).message()),
              HasSubstr(absl::StrCat("truncated: got 4 bytes after the header, expected ", file.size() - 56)));
}

TEST(ModelFileTest, TrailingDataIsDataLoss) {
  const absl::Status status = ParseError(SerializeModelFile(TinyModel()) + "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("trailing data"));
}

TEST(ModelFileTest, EveryFlippedBitIsFound) {
  const std::string file = SerializeModelFile(TinyModel({.height = 4, .width = 4, .filters = 1, .classes = 2}));
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      const absl::StatusCode code = ParseError(damaged).code();
      // A flipped bit of the version looks like a newer one.
      const bool version = i >= 8 && i < 12;
      ASSERT_TRUE(code == absl::StatusCode::kDataLoss || (version && code == absl::StatusCode::kUnimplemented))
          << "byte " << i << ", bit " << bit << ": " << code;
    }
  }
}

TEST(ModelFileTest, ForeignFilesAreNotModelFiles) {
  for (const std::string& file : {std::string("hello"), std::string(100, '\0'), std::string("\x89PNG\r\n\x1a\n")}) {
    const absl::Status status = ParseError(file);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("not a model file"));
  }
}

TEST(ModelFileTest, NewerVersionSaysSo) {
  std::string file = SerializeModelFile(TinyModel());
  file[8] = 5;
  const absl::Status status = ParseError(file);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("got format version 5, expected at most 4"));
  file[8] = 0;
  EXPECT_THAT(std::string(ParseError(file).message()), HasSubstr("got format version 0"));
}

TEST(ModelFileTest, PayloadThatIsNoMessageIsRejected) {
  std::string payload = "\xFF\xFF\xFF\xFF";
  std::string file = SerializeModelFile(TinyModel()).substr(0, 16);
  file += std::string("\x04\0\0\0\0\0\0\0", 8) + Sha256Digest(payload) + payload;
  const absl::Status status = ParseError(file);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a ckn.v1.Model message"));
}

// A byte string of floats with one of them replaced.
void SetFloat(std::string* bytes, std::size_t index, float value) { std::memcpy(bytes->data() + 4 * index, &value, 4); }

struct Corruption {
  const char* name;
  std::function<void(v1::Model&)> apply;
  const char* message;  // part of what the error must say
};

TEST(ModelFileTest, EveryCorruptedFieldIsRejectedByName) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<Corruption> corruptions = {
      {"no name", [](v1::Model& m) { m.clear_name(); }, "name: got an empty string"},
      {"long name", [](v1::Model& m) { m.set_name(std::string(257, 'x')); },
       "name: got 257 bytes, expected at most 256"},
      {"control character", [](v1::Model& m) { m.set_name("a\nb"); }, R"(name: got "a\nb", expected printable UTF-8)"},
      {"height 0", [](v1::Model& m) { m.mutable_input()->set_height(0); }, "input: height: got 0, expected 1 to 16384"},
      {"width -1", [](v1::Model& m) { m.mutable_input()->set_width(-1); }, "input: width: got -1"},
      {"channels", [](v1::Model& m) { m.mutable_input()->set_channels(2); }, "input: channels: got 2, expected 1 or 3"},
      {"resize", [](v1::Model& m) { m.mutable_input()->set_resize(static_cast<v1::ResizePolicy>(7)); },
       "input: resize: got 7"},
      {"map", [](v1::Model& m) { m.mutable_input()->set_map(static_cast<v1::InputMap>(9)); }, "input: map: got 9"},
      {"map of other channels", [](v1::Model& m) { m.mutable_input()->set_map(v1::INPUT_MAP_GRADIENT); },
       "layer 1: in_channels: got 3, expected 2"},
      {"no layers", [](v1::Model& m) { m.clear_layers(); }, "layers: got 0, expected 1 to 64"},
      {"patch size 0", [](v1::Model& m) { m.mutable_layers(0)->set_patch_size(0); }, "layer 1: patch_size: got 0"},
      {"patch size", [](v1::Model& m) { m.mutable_layers(1)->set_patch_size(3); },
       "layer 2: weights: got 320 bytes, expected 720 (5 x 36 float32)"},
      {"in channels", [](v1::Model& m) { m.mutable_layers(1)->set_in_channels(3); }, "layer 2: weights: got 320 bytes"},
      {"in channels -1", [](v1::Model& m) { m.mutable_layers(0)->set_in_channels(-1); },
       "layer 1: in_channels: got -1"},
      {"filters", [](v1::Model& m) { m.mutable_layers(1)->set_filters(6); }, "layer 2: weights: got 320 bytes"},
      {"filters 0", [](v1::Model& m) { m.mutable_layers(1)->set_filters(0); }, "layer 2: filters: got 0"},
      {"subsampling 0", [](v1::Model& m) { m.mutable_layers(0)->set_subsampling(0); }, "layer 1: subsampling: got 0"},
      {"subsampling huge", [](v1::Model& m) { m.mutable_layers(0)->set_subsampling(0x7FFFFFFF); },
       "layer 1: subsampling: got 2147483647, expected 1 to 16384"},
      {"pooling radius", [](v1::Model& m) { m.mutable_layers(0)->set_pooling_radius(-1); },
       "layer 1: pooling_radius: got -1"},
      {"sigma 0", [](v1::Model& m) { m.mutable_layers(0)->set_sigma(0); }, "layer 1: sigma: got 0"},
      {"sigma tiny", [](v1::Model& m) { m.mutable_layers(0)->set_sigma(1e-20F); },
       "layer 1: sigma: got 1e-20, expected 0.001 to 1e+09"},
      {"epsilon tiny", [](v1::Model& m) { m.mutable_layers(0)->set_epsilon(1e-30F); }, "layer 1: epsilon: got 1e-30"},
      {"sigma NaN", [nan](v1::Model& m) { m.mutable_layers(1)->set_sigma(nan); }, "layer 2: sigma: got nan"},
      {"epsilon", [](v1::Model& m) { m.mutable_layers(0)->set_epsilon(-1); }, "layer 1: epsilon: got -1"},
      {"weights cut", [](v1::Model& m) { m.mutable_layers(0)->mutable_weights()->pop_back(); },
       "layer 1: weights: got 431 bytes, expected 432 (4 x 27 float32)"},
      {"weights NaN", [nan](v1::Model& m) { SetFloat(m.mutable_layers(1)->mutable_weights(), 17, nan); },
       "layer 2: filters[1][1]: got nan"},
      {"eta cut", [](v1::Model& m) { m.mutable_layers(0)->clear_eta(); }, "layer 1: eta: got 0 bytes, expected 16"},
      {"projection cut", [](v1::Model& m) { m.mutable_layers(0)->set_projection(std::string(60, '\0')); },
       "layer 1: projection: got 60 bytes, expected 64 (4 x 4 float32)"},
      {"projection NaN",
       [nan](v1::Model& m) {
         m.mutable_layers(0)->set_projection(std::string(64, '\0'));
         SetFloat(m.mutable_layers(0)->mutable_projection(), 3, nan);
       },
       "layer 1: projection[3]: got nan"},
      {"whitening cut", [](v1::Model& m) { m.mutable_layers(1)->set_whitening(std::string(12, '\0')); },
       "layer 2: whitening: got 12 bytes, expected 1024 (16 x 16 float32)"},
      {"eta negative", [](v1::Model& m) { SetFloat(m.mutable_layers(0)->mutable_eta(), 3, -1); },
       "layer 1: eta[3]: got -1"},
      {"objective", [](v1::Model& m) { m.mutable_layers(0)->mutable_learning()->set_objective(NAN); },
       "layer 1: learning.objective: got nan"},
      {"objective start", [](v1::Model& m) { m.mutable_layers(0)->mutable_learning()->set_objective_start(INFINITY); },
       "layer 1: learning.objective_start: got inf"},
      {"held out", [](v1::Model& m) { m.mutable_layers(1)->mutable_learning()->set_held_out_objective(NAN); },
       "layer 2: learning.held_out_objective: got nan"},
      {"pairs", [](v1::Model& m) { m.mutable_layers(1)->mutable_learning()->set_pairs(-1); },
       "layer 2: learning.pairs: got -1"},
      {"iterations", [](v1::Model& m) { m.mutable_layers(1)->mutable_learning()->set_iterations(-1); },
       "layer 2: learning.iterations: got -1"},
      {"stop reason", [](v1::Model& m) { m.mutable_layers(0)->mutable_learning()->set_stop_reason("\x1b[31m"); },
       "layer 1: learning.stop_reason: expected printable UTF-8"},
      {"components", [](v1::Model& m) { m.mutable_layers(1)->mutable_learning()->set_principal_components(-1); },
       "layer 2: learning.principal_components: got -1"},
      {"initialisation", [](v1::Model& m) { m.mutable_layers(0)->mutable_learning()->set_initialisation("\n"); },
       "layer 1: learning.initialisation"},
      {"mean cut", [](v1::Model& m) { m.mutable_standardization()->mutable_mean()->resize(16); },
       "standardization.mean: got 16 bytes, expected 20 (5 x 1 float32)"},
      {"mean infinite",
       [infinity](v1::Model& m) { SetFloat(m.mutable_standardization()->mutable_mean(), 2, infinity); },
       "standardization.mean[2]: got inf"},
      {"scale 0", [](v1::Model& m) { m.mutable_standardization()->set_scale(0); }, "standardization.scale: got 0"},
      {"scale tiny", [](v1::Model& m) { m.mutable_standardization()->set_scale(1e-45F); },
       "standardization.scale: got 1.4013e-45, expected 1e-09 to 1e+09"},
      {"eta huge", [](v1::Model& m) { SetFloat(m.mutable_layers(0)->mutable_eta(), 0, 1e30F); },
       "layer 1: eta[0]: got 1e+30"},
      {"svm weights huge", [](v1::Model& m) { SetFloat(m.mutable_svm()->mutable_weights(), 0, -1e30F); },
       "svm.weights[0]: got -1e+30"},
      {"scale NaN", [nan](v1::Model& m) { m.mutable_standardization()->set_scale(nan); },
       "standardization.scale: got nan"},
      {"no standardization", [](v1::Model& m) { m.clear_standardization(); }, "standardization.mean: got 0 bytes"},
      {"one class", [](v1::Model& m) { m.mutable_class_names()->DeleteSubrange(1, 2); },
       "class_names: got 1, expected 2 to 65536"},
      {"class missing", [](v1::Model& m) { m.mutable_class_names()->RemoveLast(); }, "svm.classes: got 3, expected 2"},
      {"class empty", [](v1::Model& m) { m.set_class_names(1, ""); }, "class_names[1]: got an empty string"},
      {"class twice", [](v1::Model& m) { m.set_class_names(2, "cat"); }, "class_names[2]: got \"cat\" a second time"},
      {"class control", [](v1::Model& m) { m.set_class_names(0, "\t"); }, R"(class_names[0]: got "\t")"},
      {"classes", [](v1::Model& m) { m.mutable_svm()->set_classes(4); }, "svm.classes: got 4, expected 3"},
      {"features", [](v1::Model& m) { m.mutable_svm()->set_features(6); }, "svm.features: got 6, expected 5"},
      {"svm weights cut", [](v1::Model& m) { m.mutable_svm()->mutable_weights()->push_back('x'); },
       "svm.weights: got 61 bytes, expected 60 (3 x 5 float32)"},
      {"svm weights NaN", [nan](v1::Model& m) { SetFloat(m.mutable_svm()->mutable_weights(), 0, nan); },
       "svm.weights[0]: got nan"},
      {"bias cut", [](v1::Model& m) { m.mutable_svm()->clear_bias(); }, "svm.bias: got 0 bytes, expected 12"},
      {"bias infinite", [infinity](v1::Model& m) { SetFloat(m.mutable_svm()->mutable_bias(), 2, -infinity); },
       "svm.bias[2]: got -inf"},
      {"probability scale", [](v1::Model& m) { m.mutable_svm()->set_probability_scale(-1); },
       "svm.probability_scale: got -1, expected 0 to 1e+09"},
      {"quantiles cut", [](v1::Model& m) { m.mutable_residual_quantiles()->push_back('x'); },
       "residual_quantiles: got 17 bytes, expected 16 (4 x 1 float32)"},
      {"quantiles too many", [](v1::Model& m) { m.mutable_residual_quantiles()->append(4 * 998, '\0'); },
       "residual_quantiles: got 1002, expected 0 to 1001"},
      {"quantiles NaN", [nan](v1::Model& m) { SetFloat(m.mutable_residual_quantiles(), 1, nan); },
       "residual_quantiles[1]: got nan"},
      {"quantiles descend", [](v1::Model& m) { SetFloat(m.mutable_residual_quantiles(), 3, 0); },
       "residual_quantiles: expected them to ascend"},
      {"version text", [](v1::Model& m) { m.mutable_provenance()->set_program_version("\x01"); },
       "provenance: program_version"},
      {"command", [](v1::Model& m) { m.mutable_provenance()->set_command("a\nb"); }, "provenance: command"},
      {"command long", [](v1::Model& m) { m.mutable_provenance()->set_command(std::string(65537, 'x')); },
       "provenance: command: got 65537 bytes, expected at most 65536"},
      {"architecture", [](v1::Model& m) { m.mutable_provenance()->set_architecture("\x01"); },
       "provenance: architecture"},
      {"dataset", [](v1::Model& m) { m.mutable_provenance()->set_dataset("\x7f"); }, "provenance: dataset"},
      {"hash short", [](v1::Model& m) { m.mutable_provenance()->set_dataset_sha256("abc"); },
       "provenance: dataset_sha256: got \"abc\""},
      {"hash upper", [](v1::Model& m) { m.mutable_provenance()->set_dataset_sha256(std::string(64, 'A')); },
       "provenance: dataset_sha256"},
      {"train count", [](v1::Model& m) { m.mutable_provenance()->set_train_count(-1); }, "provenance: train_count"},
      {"test count", [](v1::Model& m) { m.mutable_provenance()->set_test_count(-1); }, "provenance: test_count"},
      {"C", [](v1::Model& m) { m.mutable_provenance()->set_svm_c(NAN); }, "provenance: svm_c: got nan"},
      {"validation", [](v1::Model& m) { m.mutable_provenance()->set_validation("\r"); }, "provenance: validation"},
      {"validation error", [](v1::Model& m) { m.mutable_provenance()->set_validation_error_percent(101); },
       "provenance: validation_error_percent: got 101, expected 0 to 100"},
      {"test error", [](v1::Model& m) { m.mutable_provenance()->set_test_error_percent(NAN); },
       "provenance: test_error_percent: got nan"},
      {"curve C", [](v1::Model& m) { m.mutable_provenance()->mutable_validation_curve(0)->set_svm_c(INFINITY); },
       "provenance: validation_curve.svm_c: got inf"},
      {"curve error", [](v1::Model& m) { m.mutable_provenance()->mutable_validation_curve(0)->set_error_percent(-1); },
       "provenance: validation_curve.error_percent: got -1"},
  };
  const v1::Model good = ToProto(FullModel());
  ASSERT_TRUE(FromProto(good, {}).ok()) << FromProto(good, {}).status();
  for (const Corruption& corruption : corruptions) {
    v1::Model bad = good;
    corruption.apply(bad);
    const absl::Status status = FromProto(bad, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << corruption.name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(corruption.message)) << corruption.name;
  }
}

// Damage that the checksum does not see, as an attacker would do it.
TEST(ModelFileTest, DamagedPayloadWithAMatchingChecksumNeverCrashes) {
  const std::string good = SerializeModelFile(FullModel());
  std::mt19937 random(5);
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string payload = good.substr(56);
    for (unsigned k = 0; k < 1 + i % 3U; ++k) {
      payload[random() % payload.size()] = static_cast<char>(random());
    }
    const std::string file = good.substr(0, 24) + Sha256Digest(payload) + payload;
    const absl::StatusOr<Model> model = ParseModelFile(AsBytes(file), {});
    if (!model.ok()) continue;
    ++accepted;  // most bytes are weights, and most of their changes are finite
    EXPECT_TRUE(FromProto(ToProto(*model), {}).ok());
  }
  EXPECT_GT(accepted, 0);
}

TEST(ModelFileTest, PatchLargerThanTheMapIsRejected) {
  Model model = TinyModel({.height = 3, .width = 3});
  model.networks[0].input.width = 2;
  EXPECT_THAT(std::string(FromProto(ToProto(model), {}).status().message()),
              HasSubstr("layer 1: patch_size: got 3, expected at most the map below, 3x2"));
}

TEST(ModelFileTest, EachLimitIsEnforced) {
  const v1::Model proto = ToProto(FullModel());
  const auto error = [&proto](const ModelLimits& limits) {
    return std::string(FromProto(proto, limits).status().message());
  };
  EXPECT_EQ(error({}), "");
  EXPECT_THAT(error({.max_layers = 1}), HasSubstr("layers: got 2, expected 1 to 1"));
  EXPECT_THAT(error({.max_image_side = 9}), HasSubstr("input: height: got 10, expected 1 to 9"));
  EXPECT_THAT(error({.max_filters = 4}), HasSubstr("layer 2: filters: got 5, expected 1 to 4"));
  EXPECT_THAT(error({.max_patch_dim = 26}), HasSubstr("layer 1: patch_size^2 * in_channels: got 27, expected 1 to 26"));
  EXPECT_THAT(error({.max_map_values = 269}), HasSubstr("input: height * width * channels: got 270"));
  EXPECT_THAT(error({.max_features = 4}), HasSubstr("features of the last layer: got 5, expected 1 to 4"));
  EXPECT_THAT(error({.max_classes = 2}), HasSubstr("class_names: got 3, expected 2 to 2"));
  EXPECT_THAT(error({.max_name_bytes = 3}), HasSubstr("name: got 4 bytes, expected at most 3"));
  EXPECT_THAT(error({.max_text_bytes = 5}), HasSubstr("expected at most 5"));
  const std::string file = SerializeModelFile(FullModel());
  EXPECT_TRUE(ParseError(file, {.max_file_bytes = file.size()}).ok());
  EXPECT_THAT(std::string(ParseError(file, {.max_file_bytes = file.size() - 1}).message()), HasSubstr("file size"));
}

// A few bytes that promise arrays of terabytes: refused by the sizes that are there, not by running out of memory.
TEST(ModelFileTest, PromisedSizesAreCheckedBeforeAllocation) {
  v1::Model proto = ToProto(FullModel());
  proto.mutable_layers(1)->set_filters(65536);
  proto.mutable_layers(1)->set_patch_size(512);
  EXPECT_THAT(std::string(FromProto(proto, {}).status().message()),
              HasSubstr("layer 2: weights: got 320 bytes, expected 274877906944"));
  proto.mutable_layers(1)->set_patch_size(16384);
  EXPECT_THAT(std::string(FromProto(proto, {}).status().message()), HasSubstr("got 1073741824, expected 1 to 1048576"));
  // 1 x 1 patches keep the file small while the maps are huge.
  Model wide = TinyModel();
  InputSpec& input = wide.networks.front().input;
  input.height = input.width = 16384;
  wide.networks.front().layers[0].subsampling = 16384;
  EXPECT_THAT(std::string(FromProto(ToProto(wide), {}).status().message()),
              HasSubstr("layer 1: values of its activation map: got 1073479696, expected 1 to 268435456"));

  std::string file = SerializeModelFile(TinyModel());
  file.replace(16, 8, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F");
  EXPECT_EQ(ParseError(file).code(), absl::StatusCode::kDataLoss);
}

TEST(ModelFileTest, WritesAndReadsFiles) {
  const TempDir dir;
  const std::string path = dir.File("m.ckn");
  const Model model = FullModel();
  ASSERT_TRUE(WriteModelFile(model, path).ok());
  const absl::StatusOr<LoadedModel> loaded = ReadModelFile(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectEqual(model, loaded->model);
  const std::string bytes = ReadAll(path);
  EXPECT_EQ(bytes, SerializeModelFile(model));
  EXPECT_EQ(loaded->sha256, Sha256Hex(bytes));
  EXPECT_EQ(loaded->file_bytes, bytes.size());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), std::filesystem::directory_iterator()), 1);
}

TEST(ModelFileTest, ReadErrorsStartWithThePath) {
  const TempDir dir;
  const absl::Status missing = ReadModelFile(dir.File("none.ckn")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), StartsWith(dir.File("none.ckn") + ": "));
  const absl::Status folder = ReadModelFile(dir.path()).status();
  EXPECT_EQ(folder.code(), absl::StatusCode::kInvalidArgument);
  const std::string file = SerializeModelFile(TinyModel());
  for (const std::size_t length : {std::size_t{0}, std::size_t{30}, file.size() - 1}) {
    const std::string path = dir.Write("cut.ckn", file.substr(0, length));
    const absl::Status cut = ReadModelFile(path).status();
    EXPECT_EQ(cut.code(), absl::StatusCode::kDataLoss) << length;
    EXPECT_THAT(std::string(cut.message()), StartsWith(path + ": "));
  }
}

TEST(ModelFileTest, ModelThatWouldNotLoadIsNotWritten) {
  const TempDir dir;
  const std::string path = dir.File("m.ckn");
  ASSERT_TRUE(WriteModelFile(TinyModel(), path).ok());
  const std::string before = ReadAll(path);
  Model broken = TinyModel();
  broken.svm.bias[1] = NAN;
  const absl::Status status = WriteModelFile(broken, path);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("m.ckn: svm.bias[1]: got nan"));
  EXPECT_EQ(ReadAll(path), before);
}

TEST(ModelFileTest, FailingWriteLeavesTheOldFile) {
  const TempDir dir;
  const std::string path = dir.File("m.ckn");
  ASSERT_TRUE(WriteModelFile(TinyModel(), path).ok());
  const std::string before = ReadAll(path);
  // A limit on the size of files stands for a full disk.
  rlimit old_limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 500;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = WriteModelFile(FullModel(), path);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(ReadAll(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), std::filesystem::directory_iterator()), 1);
}

// The kills come at any moment of a write, however long one takes here: after the writer has said that it begins
// another one, within the time that one took before.
TEST(ModelFileTest, AWriterThatIsKilledLeavesTheOldModelOrTheNew) {
  const TempDir dir;
  const std::string path = dir.File("m.ckn");
  const Model even = TinyModel({.height = 32, .width = 32, .filters = 32, .seed = 2});
  const Model odd = TinyModel({.height = 32, .width = 32, .filters = 32, .seed = 3});
  const std::string even_bytes = SerializeModelFile(even);
  const std::string odd_bytes = SerializeModelFile(odd);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(WriteModelFile(even, path).ok());
  const std::chrono::duration<double> write_time = std::chrono::steady_clock::now() - start;
  std::mt19937 random(1);
  int changed = 0;
  std::string before = even_bytes;
  for (int round = 0; round < 40; ++round) {
    std::array<int, 2> begun{};  // a byte for each write that begins
    ASSERT_EQ(pipe(begun.data()), 0);
    const pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
      for (int count = 1;; ++count) {
        if (write(begun[1], "w", 1) != 1 || !WriteModelFile(count % 2 == 0 ? even : odd, path).ok()) _exit(1);
      }
    }
    close(begun[1]);
    const int writes = 1 + static_cast<int>(random() % 3);
    bool alive = true;
    for (int count = 0; count < writes && alive; ++count) {
      char byte = 0;
      alive = read(begun[0], &byte, 1) == 1;
    }
    std::this_thread::sleep_for(write_time * std::uniform_real_distribution<>(0, 1.5)(random));
    ASSERT_EQ(kill(writer, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    close(begun[0]);
    ASSERT_TRUE(alive && WIFSIGNALED(status)) << "the writer failed by itself";
    const std::string now = ReadAll(path);
    ASSERT_TRUE(now == even_bytes || now == odd_bytes) << "round " << round << ": " << now.size() << " bytes";
    changed += now == before ? 0 : 1;
    before = now;
  }
  EXPECT_GT(changed, 0) << "no writer has got as far as to replace the file";
}

}  // namespace
}  // namespace ckn
