#include "server/ckn/kernel_map_slow.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <numbers>

namespace ckn {
namespace {

struct MapD {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<double> values;  // [height][width][channels]

  MapD(int h, int w, int c) : height(h), width(w), channels(c), values(static_cast<std::size_t>(h) * w * c) {}
  double& operator()(int y, int x, int c) { return values[(static_cast<std::size_t>(y) * width + x) * channels + c]; }
  double operator()(int y, int x, int c) const {
    return values[(static_cast<std::size_t>(y) * width + x) * channels + c];
  }
};

MapD ToDouble(const FeatureMap& map) {
  MapD out(map.height, map.width, map.channels);
  std::copy(map.values.begin(), map.values.end(), out.values.begin());
  return out;
}

// psi(z) at upper left corner (y, x).
std::vector<double> Patch(const Layer& layer, const MapD& map, int y, int x) {
  std::vector<double> patch;
  for (int i = 0; i < layer.patch_size; ++i) {
    for (int j = 0; j < layer.patch_size; ++j) {
      for (int c = 0; c < map.channels; ++c) patch.push_back(map(y + i, x + j, c));
    }
  }
  if (layer.subtract_patch_mean) {
    for (int c = 0; c < map.channels; ++c) {
      double mean = 0;
      for (std::size_t i = c; i < patch.size(); i += map.channels) mean += patch[i];
      mean /= layer.patch_size * layer.patch_size;
      for (std::size_t i = c; i < patch.size(); i += map.channels) patch[i] -= mean;
    }
  }
  if (layer.whitening.size() == 0) return patch;
  std::vector<double> whitened(patch.size());
  for (std::size_t i = 0; i < patch.size(); ++i) {
    for (std::size_t j = 0; j < patch.size(); ++j) {
      whitened[i] += patch[j] * layer.whitening(static_cast<Eigen::Index>(j), static_cast<Eigen::Index>(i));
    }
  }
  return whitened;
}

double Norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double value : v) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace

std::vector<double> EncodeSlow(const std::vector<Layer>& layers, const FeatureMap& input) {
  MapD map = ToDouble(input);
  for (const Layer& layer : layers) {
    const double sigma_squared = static_cast<double>(layer.sigma) * layer.sigma;
    MapD zeta(ActivationSize(map.height, layer.patch_size), ActivationSize(map.width, layer.patch_size),
              layer.filter_count());
    for (int y = 0; y < zeta.height; ++y) {
      for (int x = 0; x < zeta.width; ++x) {
        const std::vector<double> patch = Patch(layer, map, y, x);
        const double norm = Norm(patch);
        for (int l = 0; l < zeta.channels; ++l) {
          double distance_squared = 0;
          for (std::size_t i = 0; i < patch.size(); ++i) {
            const double difference = patch[i] / std::max(norm, static_cast<double>(layer.epsilon)) -
                                      layer.filters(l, static_cast<Eigen::Index>(i));
            distance_squared += difference * difference;
          }
          zeta(y, x, l) =
              norm * std::sqrt(static_cast<double>(layer.eta[l])) * std::exp(-distance_squared / sigma_squared);
        }
      }
    }
    const double beta = layer.subsampling;
    MapD xi(PooledSize(zeta.height, layer.subsampling), PooledSize(zeta.width, layer.subsampling), zeta.channels);
    for (int i = 0; i < xi.height; ++i) {
      for (int j = 0; j < xi.width; ++j) {
        for (int y = 0; y < zeta.height; ++y) {
          for (int x = 0; x < zeta.width; ++x) {
            const int dy = y - PoolingCentre(i, layer.subsampling);
            const int dx = x - PoolingCentre(j, layer.subsampling);
            if (std::abs(dy) > layer.pooling_radius || std::abs(dx) > layer.pooling_radius) continue;
            const double weight =
                std::sqrt(2 / std::numbers::pi) *
                std::exp(-(static_cast<double>(dy) * dy + static_cast<double>(dx) * dx) / (beta * beta));
            for (int l = 0; l < xi.channels; ++l) xi(i, j, l) += weight * zeta(y, x, l);
          }
        }
      }
    }
    if (layer.projection.size() == 0) {
      map = std::move(xi);
      continue;
    }
    map = MapD(xi.height, xi.width, xi.channels);
    for (int i = 0; i < xi.height; ++i) {
      for (int j = 0; j < xi.width; ++j) {
        for (int l = 0; l < xi.channels; ++l) {
          for (int m = 0; m < xi.channels; ++m)
            map(i, j, l) += static_cast<double>(layer.projection(l, m)) * xi(i, j, m);
        }
      }
    }
  }
  return map.values;
}

double ExactConvolutionalKernel(const Layer& layer, double beta, const FeatureMap& a, const FeatureMap& b) {
  const MapD map_a = ToDouble(a);
  const MapD map_b = ToDouble(b);
  const int rows = ActivationSize(a.height, layer.patch_size);
  const int cols = ActivationSize(a.width, layer.patch_size);
  double sum = 0;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < cols; ++x) {
      const std::vector<double> patch_a = Patch(layer, map_a, y, x);
      const double norm_a = Norm(patch_a);
      if (norm_a == 0) continue;
      for (int v = 0; v < rows; ++v) {
        for (int u = 0; u < cols; ++u) {
          const std::vector<double> patch_b = Patch(layer, map_b, v, u);
          const double norm_b = Norm(patch_b);
          if (norm_b == 0) continue;
          double distance_squared = 0;
          for (std::size_t i = 0; i < patch_a.size(); ++i) {
            const double difference = patch_a[i] / norm_a - patch_b[i] / norm_b;
            distance_squared += difference * difference;
          }
          const double location_squared = static_cast<double>(y - v) * (y - v) + static_cast<double>(x - u) * (x - u);
          sum += norm_a * norm_b * std::exp(-location_squared / (2 * beta * beta)) *
                 std::exp(-distance_squared / (2.0 * layer.sigma * layer.sigma));
        }
      }
    }
  }
  return sum;
}

}  // namespace ckn
