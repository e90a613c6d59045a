#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/atomic_file.h"
#include "server/base/sha256.h"

// NumPy's .npy files, version 1.0: float32, little-endian, C order.
namespace ckn {

// Writes an array of known shape piece by piece, so that it need not be in memory. The file appears at Close.
class NpyWriter {
 public:
  static absl::StatusOr<NpyWriter> Create(const std::string& path, std::span<const std::int64_t> shape);

  // The next values in C order. Fails when they are more than the shape holds.
  absl::Status Append(std::span<const float> values);
  // Fails when values are missing. Without Close no file appears.
  absl::Status Close();
  // Of the bytes of the whole file, as 64 hex digits; once, after Close.
  std::string Sha256() { return sha256_->HexDigest(); }

 private:
  NpyWriter(std::string path, AtomicFile file, std::int64_t count);
  absl::Status Write(const std::string& bytes);

  std::string path_;
  AtomicFile file_;
  std::int64_t expected_;
  std::int64_t written_ = 0;
  std::unique_ptr<ckn::Sha256> sha256_ = std::make_unique<ckn::Sha256>();
};

// values.size() must be the product of the shape.
absl::Status WriteNpy(const std::string& path, std::span<const float> values, std::span<const std::int64_t> shape);

}  // namespace ckn
