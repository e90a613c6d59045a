#include "server/simd/aligned_floats.h"

#include <cstdlib>
#include <new>

namespace ckn {
namespace {

constexpr std::size_t kCacheLine = 64;

}  // namespace

void AlignedFloats::Free::operator()(float* data) const { std::free(data); }  // NOLINT(cppcoreguidelines-no-malloc)

void AlignedFloats::Reserve(std::size_t size) {
  if (size <= size_) return;
  const std::size_t bytes = (size * sizeof(float) + kCacheLine - 1) / kCacheLine * kCacheLine;
  data_.reset();
  data_.reset(static_cast<float*>(std::aligned_alloc(kCacheLine, bytes)));  // NOLINT(cppcoreguidelines-no-malloc)
  if (data_ == nullptr) throw std::bad_alloc();
  size_ = size;
}

}  // namespace ckn
