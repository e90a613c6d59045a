#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace ckn {

// A regular file opened for reading. Messages of errors do not name the path; callers add what the file is to them.
class RegularFile {
 public:
  // NOT_FOUND and the like by the system's error; INVALID_ARGUMENT for a folder, a device or a pipe, at which this does
  // not wait.
  static absl::StatusOr<RegularFile> Open(const std::string& path);

  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile();

  // Bytes, when it was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // Reads on from where the last Read ended until `out` is full; returns less than its size only at the end of the
  // file.
  absl::StatusOr<std::size_t> Read(std::span<std::byte> out);

 private:
  RegularFile(int fd, std::uint64_t size) : fd_(fd), size_(size) {}

  int fd_;
  std::uint64_t size_;
};

// The whole of a regular file. INVALID_ARGUMENT when it is larger than `max_bytes`, before memory is asked for.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max());

}  // namespace ckn
