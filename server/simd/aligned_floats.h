#pragma once

#include <cstddef>
#include <memory>

namespace ckn {

// Floats whose first one lies on a cache line.
class AlignedFloats {
 public:
  // At least this many; contents are lost when it grows.
  void Reserve(std::size_t size);
  [[nodiscard]] float* data() { return data_.get(); }
  [[nodiscard]] const float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* data) const;
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace ckn
