#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ckn {

// A file that appears whole or not at all: bytes go to a temporary file in the same folder, which Commit flushes to
// disk and renames over `path`. Readers of `path` see the old content or the whole new content, also after a crash.
// Destroyed without Commit, the temporary file is removed and `path` stays as it was; what a killed process leaves of
// one is removed by the next that writes the same file.
class AtomicFile {
 public:
  // Fails when the folder does not exist or is not writable, or when `path` is there but is not a regular file (a
  // device or a folder must not be renamed over). A symbolic link is followed: its target is replaced, not the link.
  static absl::StatusOr<AtomicFile> Create(const std::string& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  // Messages of all errors name `path`.
  absl::Status Append(std::string_view bytes);
  // May be called once, and nothing after it.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd);

  std::string path_;       // as the user wrote it, for messages
  std::string target_;     // what the rename replaces
  std::string temporary_;  // empty after Commit
  int fd_ = -1;
};

// The three steps at once.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace ckn
