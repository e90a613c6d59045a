#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ckn/onnx/onnx.pb.h"

namespace ckn {

// Builds an ONNX graph of operator set 13 node by node. Values are known by their names, which this class invents from
// the scope, the operator and a number: "layer 2/Exp_17".
class OnnxGraph {
 public:
  static constexpr int kOperatorSet = 13;

  struct Attribute {
    std::string name;
    std::variant<std::int64_t, std::vector<std::int64_t>, std::string> value;
  };

  explicit OnnxGraph(std::string_view name) { graph_.set_name(std::string(name)); }

  // Goes in front of the names of what is added from now on.
  void SetScope(std::string scope) { scope_ = std::move(scope); }

  // A node with one output, after those that give its inputs. Returns the name of the output.
  std::string Add(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<Attribute>& attributes = {});
  // The same for an output of the graph, float32 [N][dims...], N the images of the call.
  std::string AddOutput(const std::string& name, const std::vector<std::int64_t>& dims, std::string_view description,
                        const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<Attribute>& attributes = {});
  // An input of the graph, float32 [N][dims...].
  std::string AddInput(const std::string& name, const std::vector<std::int64_t>& dims, std::string_view description);

  // Constants; values.size() is the product of dims.
  std::string Floats(const std::vector<std::int64_t>& dims, std::span<const float> values);
  std::string Scalar(float value) { return Floats({}, {&value, 1}); }
  std::string Ints(const std::vector<std::int64_t>& values);

  [[nodiscard]] onnx::GraphProto Take() && { return std::move(graph_); }

 private:
  std::string NewName(std::string_view kind);

  onnx::GraphProto graph_;
  std::string scope_;
  int count_ = 0;
};

}  // namespace ckn
