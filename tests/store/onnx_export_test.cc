#include "server/store/onnx_export.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/model_kinds.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModelsOfAllKinds;
using ::testing::Pair;
using testing::TinyModel;
using ::testing::UnorderedElementsAre;

// What is in the file, read back.
onnx::ModelProto Exported(const Model& model) {
  const absl::StatusOr<onnx::ModelProto> proto = ToOnnx({model, std::string(64, 'b'), 1}, "1.2.3");
  EXPECT_TRUE(proto.ok()) << proto.status();
  onnx::ModelProto read;
  EXPECT_TRUE(read.ParseFromString(proto->SerializeAsString()));
  return read;
}

// "N" stands first, then sizes.
std::vector<std::string> Shape(const onnx::ValueInfoProto& value) {
  std::vector<std::string> shape;
  EXPECT_EQ(value.type().tensor_type().elem_type(), onnx::TensorProto::FLOAT);
  for (const onnx::TensorShapeProto::Dimension& dim : value.type().tensor_type().shape().dim()) {
    shape.push_back(dim.dim_param().empty() ? std::to_string(dim.dim_value()) : dim.dim_param());
  }
  return shape;
}

// Every node takes what an earlier one gives, every name is given once, constants have the bytes of their shape, and
// the graph's outputs are there.
void ExpectWellFormed(const onnx::GraphProto& graph) {
  std::set<std::string> known;
  for (const onnx::ValueInfoProto& input : graph.input()) EXPECT_TRUE(known.insert(input.name()).second);
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    EXPECT_TRUE(known.insert(tensor.name()).second) << tensor.name();
    std::int64_t count = 1;
    for (const std::int64_t dim : tensor.dims()) count *= dim;
    if (tensor.data_type() == onnx::TensorProto::FLOAT) {
      EXPECT_EQ(static_cast<std::int64_t>(tensor.raw_data().size()), 4 * count) << tensor.name();
    } else {
      EXPECT_EQ(tensor.data_type(), onnx::TensorProto::INT64) << tensor.name();
      EXPECT_EQ(tensor.int64_data_size(), count) << tensor.name();
    }
  }
  std::set<std::string> used;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& input : node.input()) {
      EXPECT_TRUE(known.contains(input)) << node.name() << " takes " << input;
      used.insert(input);
    }
    ASSERT_EQ(node.output_size(), 1) << node.name();
    EXPECT_TRUE(known.insert(node.output(0)).second) << node.output(0);
  }
  for (const onnx::ValueInfoProto& output : graph.output()) {
    EXPECT_TRUE(known.contains(output.name()));
    used.insert(output.name());
  }
  EXPECT_EQ(used, known) << "something in the graph leads nowhere";
}

TEST(OnnxExportTest, SignatureAndMetadataDescribeTheModel) {
  Model model = TinyModel({.name = "tiny", .height = 8, .width = 9, .channels = 3, .classes = 3});
  onnx::ModelProto proto = Exported(model);
  EXPECT_EQ(proto.ir_version(), 7);
  ASSERT_EQ(proto.opset_import_size(), 1);
  EXPECT_EQ(proto.opset_import(0).version(), 13);
  EXPECT_EQ(proto.producer_name(), "ckn");
  EXPECT_EQ(proto.producer_version(), "1.2.3");
  EXPECT_EQ(proto.graph().name(), "tiny");
  std::map<std::string, std::string> metadata;
  for (const onnx::StringStringEntryProto& entry : proto.metadata_props()) metadata[entry.key()] = entry.value();
  EXPECT_THAT(metadata, UnorderedElementsAre(Pair("ckn_name", "tiny"), Pair("ckn_classes", "class 0\nclass 1\nclass 2"),
                                             Pair("ckn_sha256", std::string(64, 'b'))));

  const onnx::GraphProto& graph = proto.graph();
  ASSERT_EQ(graph.input_size(), 1);
  EXPECT_EQ(graph.input(0).name(), "image");
  EXPECT_THAT(Shape(graph.input(0)), ElementsAre("N", "3", "8", "9"));
  ASSERT_EQ(graph.output_size(), 2);
  EXPECT_EQ(graph.output(0).name(), "features");
  EXPECT_THAT(Shape(graph.output(0)), ElementsAre("N", std::to_string(model.svm.features())));
  EXPECT_EQ(graph.output(1).name(), "scores");
  EXPECT_THAT(Shape(graph.output(1)), ElementsAre("N", "3"));

  model.svm.probability_scale = 2;
  proto = Exported(model);
  ASSERT_EQ(proto.graph().output_size(), 3);
  EXPECT_EQ(proto.graph().output(2).name(), "probabilities");
  EXPECT_THAT(Shape(proto.graph().output(2)), ElementsAre("N", "3"));
}

TEST(OnnxExportTest, EveryKindOfModelGivesAWellFormedGraph) {
  for (const Model& model : ModelsOfAllKinds()) {
    SCOPED_TRACE(model.name);
    ExpectWellFormed(Exported(model).graph());
  }
}

TEST(OnnxExportTest, TheSameModelGivesTheSameBytes) {
  const Model model = ModelsOfAllKinds().back();
  EXPECT_EQ(Exported(model).SerializeAsString(), Exported(model).SerializeAsString());
}

TEST(OnnxExportTest, NetworksOfGrayAndColourShareAColourInput) {
  const Model model = ModelsOfAllKinds().back();
  ASSERT_EQ(model.networks.size(), 3);
  ASSERT_EQ(model.networks.front().input.channels, 1);
  EXPECT_EQ(Shape(Exported(model).graph().input(0))[1], "3");
}

TEST(OnnxExportTest, RefusesWhatTheFormatCannotHoldBeforeItAsksForMemory) {
  // Centring is a matrix of 27,000 x 27,000 numbers here.
  Model model = TinyModel();
  Network& network = model.networks.front();
  network.input.height = 90;
  network.input.width = 100;
  network.input.channels = 3;
  Layer& layer = network.layers.front();
  layer.patch_size = 90;
  layer.in_channels = 3;
  layer.subtract_patch_mean = true;
  layer.filters.setZero(4, layer.patch_dim());
  const absl::Status status = ToOnnx({model, "", 1}, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected less than 2 GiB"));
}

}  // namespace
}  // namespace ckn
