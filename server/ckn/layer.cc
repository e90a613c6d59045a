#include "server/ckn/layer.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace ckn {
namespace {

// An optional matrix [size][size].
absl::Status CheckSquare(const char* field, const RowMatrixF& matrix, Eigen::Index size) {
  if (matrix.size() == 0) return absl::OkStatus();
  if (matrix.rows() != size || matrix.cols() != size) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: got [%d][%d], expected [%d][%d] or nothing", field,
                                                      matrix.rows(), matrix.cols(), size, size));
  }
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    if (std::abs(matrix.data()[i]) <= kMaxParameter) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s[%d]: got %g, expected at most %g in magnitude", field, i, matrix.data()[i], kMaxParameter));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MapShape> OutputShape(const Layer& layer, const MapShape& in) {
  if (in.channels != layer.in_channels) {
    return absl::InvalidArgumentError(absl::StrFormat("in_channels: got %d, expected %d, the channels of the map below",
                                                      layer.in_channels, in.channels));
  }
  const int height = ActivationSize(in.height, layer.patch_size);
  const int width = ActivationSize(in.width, layer.patch_size);
  if (height < 1 || width < 1) {
    return absl::InvalidArgumentError(absl::StrFormat("patch_size: got %d, expected at most the map below, %dx%d",
                                                      layer.patch_size, in.height, in.width));
  }
  return MapShape{PooledSize(height, layer.subsampling), PooledSize(width, layer.subsampling), layer.filter_count()};
}

absl::Status ValidateLayer(const Layer& layer) {
  const auto positive = [](const char* field, int value) {
    if (value >= 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat("%s: got %d, expected at least 1", field, value));
  };
  for (const absl::Status& status :
       {positive("patch_size", layer.patch_size), positive("in_channels", layer.in_channels),
        positive("subsampling", layer.subsampling), positive("filters", layer.filter_count())}) {
    if (!status.ok()) return status;
  }
  if (layer.pooling_radius < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("pooling_radius: got %d, expected at least 0", layer.pooling_radius));
  }
  if (layer.filters.cols() != layer.patch_dim()) {
    return absl::InvalidArgumentError(absl::StrFormat("filters: got [%d][%d], expected [%d][%d]", layer.filters.rows(),
                                                      layer.filters.cols(), layer.filters.rows(), layer.patch_dim()));
  }
  if (layer.eta.size() != layer.filters.rows()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("eta: got [%d], expected [%d]", layer.eta.size(), layer.filters.rows()));
  }
  for (const absl::Status& status : {CheckSquare("projection", layer.projection, layer.filters.rows()),
                                     CheckSquare("whitening", layer.whitening, layer.patch_dim())}) {
    if (!status.ok()) return status;
  }
  const auto between = [](const char* field, float value, float min) {
    if (value >= min && value <= kMaxParameter) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: got %g, expected %g to %g", field, value, min, kMaxParameter));
  };
  for (const absl::Status& status :
       {between("sigma", layer.sigma, kMinSigma), between("epsilon", layer.epsilon, 1 / kMaxParameter)}) {
    if (!status.ok()) return status;
  }
  for (Eigen::Index row = 0; row < layer.filters.rows(); ++row) {
    for (Eigen::Index col = 0; col < layer.filters.cols(); ++col) {
      if (!(std::abs(layer.filters(row, col)) <= kMaxParameter)) {
        return absl::InvalidArgumentError(absl::StrFormat("filters[%d][%d]: got %g, expected at most %g in magnitude",
                                                          row, col, layer.filters(row, col), kMaxParameter));
      }
    }
    if (!(layer.eta[row] >= 0 && layer.eta[row] <= kMaxParameter)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("eta[%d]: got %g, expected 0 to %g", row, layer.eta[row], kMaxParameter));
    }
  }
  return absl::OkStatus();
}

std::int64_t ParameterCount(const std::vector<Layer>& layers) {
  std::int64_t count = 0;
  for (const Layer& layer : layers) {
    if (layer.learned) count += layer.filters.size();
  }
  return count;
}

}  // namespace ckn
