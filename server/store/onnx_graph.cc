#include "server/store/onnx_graph.h"

#include <cassert>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "server/base/endian.h"

namespace ckn {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

void SetValue(std::int64_t value, AttributeProto& out) {
  out.set_type(AttributeProto::INT);
  out.set_i(value);
}

void SetValue(const std::vector<std::int64_t>& value, AttributeProto& out) {
  out.set_type(AttributeProto::INTS);
  out.mutable_ints()->Assign(value.begin(), value.end());
}

void SetValue(const std::string& value, AttributeProto& out) {
  out.set_type(AttributeProto::STRING);
  out.set_s(value);
}

void Describe(const std::string& name, const std::vector<std::int64_t>& dims, std::string_view description,
              onnx::ValueInfoProto& out) {
  out.set_name(name);
  out.set_doc_string(std::string(description));
  onnx::TypeProto::Tensor& tensor = *out.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(TensorProto::FLOAT);
  tensor.mutable_shape()->add_dim()->set_dim_param("N");
  for (const std::int64_t dim : dims) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
}

}  // namespace

std::string OnnxGraph::NewName(std::string_view kind) {
  std::string name = scope_.empty() ? std::string() : scope_ + "/";
  name += kind;
  absl::StrAppend(&name, "_", ++count_);
  return name;
}

std::string OnnxGraph::Add(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<Attribute>& attributes) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(op);
  node.set_name(NewName(op));
  node.mutable_input()->Assign(inputs.begin(), inputs.end());
  node.add_output(node.name());
  for (const Attribute& attribute : attributes) {
    AttributeProto& out = *node.add_attribute();
    out.set_name(attribute.name);
    std::visit([&out](const auto& value) { SetValue(value, out); }, attribute.value);
  }
  return node.name();
}

std::string OnnxGraph::AddOutput(const std::string& name, const std::vector<std::int64_t>& dims,
                                 std::string_view description, const std::string& op,
                                 const std::vector<std::string>& inputs, const std::vector<Attribute>& attributes) {
  Add(op, inputs, attributes);
  graph_.mutable_node()->rbegin()->set_output(0, name);
  Describe(name, dims, description, *graph_.add_output());
  return name;
}

std::string OnnxGraph::AddInput(const std::string& name, const std::vector<std::int64_t>& dims,
                                std::string_view description) {
  Describe(name, dims, description, *graph_.add_input());
  return name;
}

std::string OnnxGraph::Floats(const std::vector<std::int64_t>& dims, std::span<const float> values) {
  TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(NewName("constant"));
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.mutable_dims()->Assign(dims.begin(), dims.end());
  AppendFloats(values, *tensor.mutable_raw_data());
#ifndef NDEBUG
  std::size_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::size_t>(dim);
  assert(count == values.size());
#endif
  return tensor.name();
}

std::string OnnxGraph::Ints(const std::vector<std::int64_t>& values) {
  TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(NewName("constant"));
  tensor.set_data_type(TensorProto::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  tensor.mutable_int64_data()->Assign(values.begin(), values.end());
  return tensor.name();
}

}  // namespace ckn
