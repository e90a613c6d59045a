#include "server/store/onnx_export.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/matrix.h"
#include "server/base/status.h"
#include "server/store/onnx_graph.h"

namespace ckn {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr int kIrVersion = 7;  // the one that came with operator set 13
constexpr std::uint64_t kMaxBytes = (std::uint64_t{1} << 31) - 1;

// Stands for log(0) of a filter with eta = 0: exp of it is 0.
constexpr float kLogZero = -1e30F;
// Stands for the squared norm 0, whose logarithm is wanted.
constexpr float kMinSquaredNorm = 1e-37F;

// A map xi_k of N images in the graph.
struct GraphMap {
  std::string value;
  MapShape shape;
  bool channels_last = false;  // [N][height][width][channels] instead of [N][channels][height][width]
};

template <typename Derived>
std::span<const float> Values(const Eigen::PlainObjectBase<Derived>& matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

// The patches are centred or whitened before anything else: multiplied by a constant matrix, then.
bool IsTransformed(const Layer& layer) { return layer.subtract_patch_mean || layer.whitening.size() > 0; }

// A layer is computed in one of two ways, whichever ONNX Runtime does faster on the networks of table 3. With many
// filters the patches are copied out, scaled by their norms and multiplied as rows of one matrix, so that only the
// exponential is left to do on the large activation map. With few, the copies cost more than they save.
bool CopiesPatches(const Layer& layer) {
  constexpr int kManyFilters = 64;
  return layer.filter_count() >= kManyFilters && layer.filter_count() >= layer.patch_dim();
}

std::uint64_t ConstantFloats(const Layer& layer, const MapShape& in, const MapShape& out) {
  const auto square = [](std::int64_t n) { return static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(n); };
  std::uint64_t count = static_cast<std::uint64_t>(layer.filters.size()) + 2 * layer.filters.rows();
  if (IsTransformed(layer)) count += square(layer.patch_dim());
  if (layer.projection.size() > 0) count += square(layer.filter_count());
  count += static_cast<std::uint64_t>(out.height) * ActivationSize(in.height, layer.patch_size);
  count += static_cast<std::uint64_t>(out.width) * ActivationSize(in.width, layer.patch_size);
  return count;
}

absl::Status CheckBytes(std::uint64_t bytes) {
  if (bytes <= kMaxBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("ONNX model: got at least %d bytes, expected less than 2 GiB, the format's limit", bytes));
}

class Exporter {
 public:
  explicit Exporter(const Model& model) : model_(model), graph_(model.name) {}

  absl::StatusOr<onnx::GraphProto> Run() {
    CKN_RETURN_IF_ERROR(CheckConstants());
    int channels = 1;
    for (const Network& network : model_.networks) channels = std::max(channels, network.input.channels);
    const InputSpec& input = model_.networks.front().input;
    image_.shape = {input.height, input.width, channels};
    image_.value = graph_.AddInput("image", {channels, input.height, input.width},
                                   channels == 1 ? "gray pixels in [0, 1]" : "R, G, B in [0, 1]");

    std::vector<std::string> parts;
    for (std::size_t i = 0; i < model_.networks.size(); ++i) {
      scope_ = model_.networks.size() == 1 ? std::string() : absl::StrCat("network ", i + 1, "/");
      parts.push_back(StandardizedFeatures(model_.networks[i]));
    }
    graph_.SetScope("");
    const std::int64_t features = model_.svm.features();
    const std::int64_t classes = model_.svm.classes();
    const std::string all =
        graph_.AddOutput("features", {features}, "standardised features", "Concat", parts, {{"axis", std::int64_t{1}}});
    const std::string scores = graph_.AddOutput("scores", {classes}, "margins, positive: this class", "Gemm",
                                                {all, graph_.Floats({classes, features}, Values(model_.svm.weights)),
                                                 graph_.Floats({classes}, Values(model_.svm.bias))},
                                                {{"transB", std::int64_t{1}}});
    if (model_.svm.probability_scale > 0) {
      const std::string scaled = graph_.Add("Mul", {scores, graph_.Scalar(model_.svm.probability_scale)});
      graph_.AddOutput("probabilities", {classes}, "calibrated; they add up to 1", "Softmax", {scaled},
                       {{"axis", std::int64_t{1}}});
    }
    return std::move(graph_).Take();
  }

 private:
  // Before any of them is made.
  [[nodiscard]] absl::Status CheckConstants() const {
    auto count = static_cast<std::uint64_t>(model_.svm.weights.size());
    for (const Network& network : model_.networks) {
      MapShape shape{network.input.height, network.input.width, network.input.MapChannels()};
      count += static_cast<std::uint64_t>(network.standardization.mean.size());
      if (network.input.map == InputMap::kGradient) count += 2 * static_cast<std::uint64_t>(shape.height) * shape.width;
      for (std::size_t k = 0; k < network.layers.size(); ++k) {
        const absl::StatusOr<MapShape> out = OutputShape(network.layers[k], shape);
        CKN_RETURN_IF_ERROR(Annotate(out.status(), absl::StrCat("layer ", k + 1)));
        count += ConstantFloats(network.layers[k], shape, *out);
        shape = *out;
      }
    }
    return CheckBytes(4 * count);
  }

  // [N][features of the network].
  std::string StandardizedFeatures(const Network& network) {
    graph_.SetScope(scope_ + "input");
    GraphMap map = image_;
    if (network.input.mirror) {
      // The mirror images are N more images of the same batch.
      const std::string mirrored = graph_.Add(
          "Slice",
          {map.value, graph_.Ints({-1}), graph_.Ints({-map.shape.width - 1}), graph_.Ints({3}), graph_.Ints({-1})});
      map.value = graph_.Add("Concat", {map.value, mirrored}, {{"axis", std::int64_t{0}}});
    }
    if (map.shape.channels == 3 && (network.input.channels == 1 || network.input.map == InputMap::kGradient)) {
      map.value = graph_.Add("Conv", {map.value, graph_.Floats({1, 3, 1, 1}, std::vector{0.299F, 0.587F, 0.114F})});
      map.shape.channels = 1;
    }
    if (network.input.map == InputMap::kGradient) map = Gradient(map);
    for (std::size_t k = 0; k < network.layers.size(); ++k) {
      graph_.SetScope(absl::StrCat(scope_, "layer ", k + 1));
      map = Encode(network.layers[k], map);
    }

    graph_.SetScope(scope_ + "features");
    const std::int64_t count = network.standardization.mean.size();
    map = ChannelsLast(map);
    std::string features;
    if (network.input.mirror) {
      const std::string both = Reshape(map.value, {2, -1, count});
      features = graph_.Add("ReduceMean", {both}, {{"axes", Dims{0}}, {"keepdims", std::int64_t{0}}});
    } else {
      features = Reshape(map.value, {-1, count});
    }
    features = graph_.Add("Sub", {features, graph_.Floats({count}, Values(network.standardization.mean))});
    return graph_.Add("Mul", {features, graph_.Scalar(1 / network.standardization.scale)});
  }

  // (d/dx, d/dy): half the difference of the neighbours. Repeating the pixels at the borders makes theirs half of the
  // one-sided difference.
  GraphMap Gradient(const GraphMap& gray) {
    const int height = gray.shape.height;
    const int width = gray.shape.width;
    const std::string padded =
        graph_.Add("Pad", {gray.value, graph_.Ints({0, 0, 1, 1, 0, 0, 1, 1})}, {{"mode", std::string("edge")}});
    const std::vector<float> half = {0, 0, 0, -0.5F, 0, 0.5F, 0, 0, 0, 0, -0.5F, 0, 0, 0, 0, 0, 0.5F, 0};
    const std::string inside = graph_.Add("Conv", {padded, graph_.Floats({2, 1, 3, 3}, half)});
    std::vector<float> factors;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) factors.push_back(x == 0 || x == width - 1 ? 2 : 1);
    }
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) factors.push_back(y == 0 || y == height - 1 ? 2 : 1);
    }
    return {graph_.Add("Mul", {inside, graph_.Floats({1, 2, height, width}, factors)}), {height, width, 2}, false};
  }

  GraphMap Encode(const Layer& layer, const GraphMap& in) {
    const MapShape activation{ActivationSize(in.shape.height, layer.patch_size),
                              ActivationSize(in.shape.width, layer.patch_size), layer.filter_count()};
    GraphMap out = CopiesPatches(layer) ? EncodeByPatches(layer, ChannelsLast(in), activation)
                                        : EncodeByConvolution(layer, ChannelsFirst(in), activation);
    if (layer.projection.size() > 0) {
      const std::int64_t p = layer.filter_count();
      out.value = graph_.Add("MatMul", {out.value, graph_.Floats({p, p}, Values(layer.projection))});
    }
    return out;
  }

  // With s = 1 / sigma^2 and u = w . psi, eq. (zeta) is
  //   ||psi|| sqrt(eta) exp(-||psi / max(||psi||, epsilon) - w||^2 / sigma^2) = exp(slope u + offset + bias),
  //   slope = 2 s / max(||psi||, epsilon), offset = log ||psi|| - s min(||psi||^2 / epsilon^2, 1),
  //   bias = log(eta) / 2 - s ||w||^2:
  // the norm in front is in the exponent, so that the large map is gone through as seldom as possible.
  struct NormTerms {
    std::string slope, offset;  // of each patch, like the squared norms they come from
  };
  NormTerms TermsOf(const Layer& layer, const std::string& squared_norms) {
    const double s = 1 / (static_cast<double>(layer.sigma) * layer.sigma);
    const double floor = static_cast<double>(layer.epsilon) * layer.epsilon;
    const std::string squared_floor = graph_.Scalar(static_cast<float>(floor));
    const std::string norms = graph_.Add("Sqrt", {graph_.Add("Max", {squared_norms, squared_floor})});
    NormTerms terms;
    terms.slope = graph_.Add("Div", {graph_.Scalar(static_cast<float>(2 * s)), norms});
    const std::string logs = graph_.Add("Log", {graph_.Add("Max", {squared_norms, graph_.Scalar(kMinSquaredNorm)})});
    const std::string unit = graph_.Add(
        "Div", {graph_.Add("Min", {squared_norms, squared_floor}), graph_.Scalar(static_cast<float>(floor / s))});
    terms.offset = graph_.Add("Sub", {graph_.Add("Mul", {logs, graph_.Scalar(0.5F)}), unit});
    return terms;
  }

  static std::vector<float> Bias(const Layer& layer) {
    const double s = 1 / (static_cast<double>(layer.sigma) * layer.sigma);
    std::vector<float> bias;
    for (Eigen::Index l = 0; l < layer.filters.rows(); ++l) {
      const double norm_squared = layer.filters.row(l).cast<double>().squaredNorm();
      bias.push_back(layer.eta[l] > 0
                         ? static_cast<float>(0.5 * std::log(static_cast<double>(layer.eta[l])) - s * norm_squared)
                         : kLogZero);
    }
    return bias;
  }

  // [d][d]: a patch as a row times this is the centred, whitened patch.
  static RowMatrixF PatchTransform(const Layer& layer) {
    if (!layer.subtract_patch_mean) return layer.whitening;
    const Eigen::Index d = layer.patch_dim();
    RowMatrixD centring = RowMatrixD::Identity(d, d);
    const double share = 1.0 / (layer.patch_size * layer.patch_size);
    for (Eigen::Index i = 0; i < d; ++i) {
      for (Eigen::Index j = i % layer.in_channels; j < d; j += layer.in_channels) centring(i, j) -= share;
    }
    if (layer.whitening.size() == 0) return centring.cast<float>();
    return (centring * layer.whitening.cast<double>()).cast<float>();
  }

  // Filters [count][m * m * channels], channel fastest, as the weights [count][channels][m][m] of a convolution.
  std::string ConvolutionWeights(const RowMatrixF& filters, int m, int channels) {
    std::vector<float> weights;
    weights.reserve(static_cast<std::size_t>(filters.size()));
    for (Eigen::Index l = 0; l < filters.rows(); ++l) {
      for (int c = 0; c < channels; ++c) {
        for (int i = 0; i < m * m; ++i) weights.push_back(filters(l, Eigen::Index{i} * channels + c));
      }
    }
    return graph_.Floats({filters.rows(), channels, m, m}, weights);
  }

  GraphMap EncodeByConvolution(const Layer& layer, const GraphMap& in, const MapShape& activation) {
    std::string map = in.value;
    int m = layer.patch_size;
    int channels = layer.in_channels;
    if (IsTransformed(layer)) {
      map = graph_.Add("Conv", {map, ConvolutionWeights(PatchTransform(layer).transpose(), m, channels)});
      // Each place now holds its whole patch.
      channels = layer.patch_dim();
      m = 1;
    }
    std::string squared_norms = graph_.Add("ReduceSumSquare", {map}, {{"axes", Dims{1}}});
    if (m > 1) {
      const std::vector<float> ones(static_cast<std::size_t>(m) * m, 1.0F);
      squared_norms = graph_.Add("Conv", {squared_norms, graph_.Floats({1, 1, m, m}, ones)});
    }
    const NormTerms terms = TermsOf(layer, squared_norms);
    const std::string products = graph_.Add("Conv", {map, ConvolutionWeights(layer.filters, m, channels)});
    const std::string scaled = graph_.Add("Add", {graph_.Add("Mul", {products, terms.slope}), terms.offset});
    const std::string bias = graph_.Floats({layer.filter_count(), 1, 1}, Bias(layer));
    const std::string zeta = graph_.Add("Exp", {graph_.Add("Add", {scaled, bias})});

    // Along the width first: the rest then moves and pools a smaller map.
    const RowMatrixF horizontal = PoolingMatrix(layer, activation.width).transpose();
    const std::string narrow =
        graph_.Add("MatMul", {zeta, graph_.Floats({horizontal.rows(), horizontal.cols()}, Values(horizontal))});
    const GraphMap pooled{narrow, {activation.height, static_cast<int>(horizontal.cols()), activation.channels}, false};
    return PoolVertically(layer, ChannelsLast(pooled));
  }

  GraphMap EncodeByPatches(const Layer& layer, const GraphMap& in, const MapShape& activation) {
    const std::int64_t d = layer.patch_dim();
    const std::int64_t p = layer.filter_count();
    // Columns, then rows: within a patch y, x, channel, as in a filter.
    const std::string columns = Windows(in.value, 2, layer.patch_size, activation.width);
    std::string patches = Windows(columns, 1, layer.patch_size, activation.height);
    if (IsTransformed(layer)) {
      patches = graph_.Add("MatMul", {patches, graph_.Floats({d, d}, Values(PatchTransform(layer)))});
    }
    // Without a last dimension of 1, at which ONNX Runtime's loops over numbers would break up.
    const std::string squared_norms =
        graph_.Add("ReduceSumSquare", {patches}, {{"axes", Dims{3}}, {"keepdims", std::int64_t{0}}});
    NormTerms terms = TermsOf(layer, squared_norms);
    const Dims column = {-1, activation.height, activation.width, 1};
    terms = {Reshape(terms.slope, column), Reshape(terms.offset, column)};
    const std::string scaled = graph_.Add("Mul", {patches, terms.slope});
    const std::string rows =
        Reshape(graph_.Add("Concat", {scaled, terms.offset}, {{"axis", std::int64_t{3}}}), {-1, d + 1});
    RowMatrixF weights(d + 1, p);
    weights.topRows(d) = layer.filters.transpose();
    weights.row(d).setOnes();  // of the offset
    const std::string exponents =
        graph_.Add("Gemm", {rows, graph_.Floats({d + 1, p}, Values(weights)), graph_.Floats({p}, Bias(layer))});
    const std::string zeta = graph_.Add("Exp", {exponents});

    GraphMap map = PoolVertically(layer, {zeta, activation, true});
    const RowMatrixF horizontal = PoolingMatrix(layer, activation.width);
    map.value =
        graph_.Add("MatMul", {graph_.Floats({horizontal.rows(), horizontal.cols()}, Values(horizontal)), map.value});
    map.shape.width = static_cast<int>(horizontal.rows());
    return map;
  }

  // The `size` windows of m neighbours along an axis of [N][height][width][channels], side by side as channels.
  std::string Windows(const std::string& map, int axis, int m, int size) {
    if (m == 1) return map;
    std::vector<std::string> shifted;
    shifted.reserve(static_cast<std::size_t>(m));
    for (int i = 0; i < m; ++i) {
      shifted.push_back(graph_.Add("Slice", {map, graph_.Ints({i}), graph_.Ints({i + size}), graph_.Ints({axis})}));
    }
    return graph_.Add("Concat", shifted, {{"axis", std::int64_t{3}}});
  }

  // [pooled size][in_size], half of the constant sqrt(2 / pi) in each direction. Taps outside the map are left out.
  static RowMatrixF PoolingMatrix(const Layer& layer, int in_size) {
    const double half_constant = std::pow(2 / std::numbers::pi, 0.25);
    const double beta = layer.subsampling;
    RowMatrixF matrix = RowMatrixF::Zero(PooledSize(in_size, layer.subsampling), in_size);
    for (int i = 0; i < matrix.rows(); ++i) {
      const int centre = PoolingCentre(i, layer.subsampling);
      const int last = std::min(centre + layer.pooling_radius, in_size - 1);
      for (int z = std::max(centre - layer.pooling_radius, 0); z <= last; ++z) {
        const double distance = (z - centre) / beta;
        matrix(i, z) = static_cast<float>(half_constant * std::exp(-distance * distance));
      }
    }
    return matrix;
  }

  GraphMap PoolVertically(const Layer& layer, const GraphMap& map) {
    const RowMatrixF vertical = PoolingMatrix(layer, map.shape.height);
    const std::int64_t row = std::int64_t{map.shape.width} * map.shape.channels;
    const std::string pooled =
        graph_.Add("MatMul", {graph_.Floats({vertical.rows(), vertical.cols()}, Values(vertical)),
                              Reshape(map.value, {-1, map.shape.height, row})});
    const MapShape shape{static_cast<int>(vertical.rows()), map.shape.width, map.shape.channels};
    return {Reshape(pooled, {-1, shape.height, shape.width, shape.channels}), shape, true};
  }

  std::string Reshape(const std::string& value, const Dims& dims) {
    return graph_.Add("Reshape", {value, graph_.Ints(dims)});
  }

  GraphMap ChannelsLast(const GraphMap& map) {
    if (map.channels_last) return map;
    return {graph_.Add("Transpose", {map.value}, {{"perm", Dims{0, 2, 3, 1}}}), map.shape, true};
  }

  GraphMap ChannelsFirst(const GraphMap& map) {
    if (!map.channels_last) return map;
    return {graph_.Add("Transpose", {map.value}, {{"perm", Dims{0, 3, 1, 2}}}), map.shape, false};
  }

  const Model& model_;
  OnnxGraph graph_;
  GraphMap image_;
  std::string scope_;  // of the network
};

}  // namespace

absl::StatusOr<onnx::ModelProto> ToOnnx(const LoadedModel& loaded, std::string_view program_version) {
  onnx::ModelProto proto;
  CKN_ASSIGN_OR_RETURN(*proto.mutable_graph(), Exporter(loaded.model).Run());
  proto.set_ir_version(kIrVersion);
  proto.add_opset_import()->set_version(OnnxGraph::kOperatorSet);
  proto.set_producer_name("ckn");
  proto.set_producer_version(std::string(program_version));
  const std::vector<std::pair<const char*, std::string>> metadata = {
      {"ckn_name", loaded.model.name},
      {"ckn_classes", absl::StrJoin(loaded.model.class_names, "\n")},
      {"ckn_sha256", loaded.sha256}};
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  CKN_RETURN_IF_ERROR(CheckBytes(proto.ByteSizeLong()));
  return proto;
}

}  // namespace ckn
