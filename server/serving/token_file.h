#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/serving/clock.h"
#include "server/serving/model_folder.h"

namespace ckn {

// Secrets that callers show as "authorization: Bearer TOKEN", one a line of a file; empty lines and lines with # in
// front are left out. The file is read again when it has changed, at most once a second: to change a token without a
// gap, let the file hold the old and the new one for a while. Thread-safe.
class TokenFile {
 public:
  // INVALID_ARGUMENT: no token, or one of fewer than 16 bytes, or with blanks in it. `clock` must outlive this.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(const std::string& path, const Clock& clock);

  // Whether the value of the header holds one of the tokens. Takes the same time whatever it is.
  [[nodiscard]] bool Allows(std::string_view authorization);

 private:
  using Digest = std::array<unsigned char, 32>;

  TokenFile(std::string path, const Clock& clock) : path_(std::move(path)), clock_(clock) {}
  absl::Status Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const Clock& clock_;
  absl::Mutex mu_;
  std::vector<Digest> digests_ ABSL_GUARDED_BY(mu_);  // of the tokens: comparing these tells nothing of their lengths
  FileIdentity identity_ ABSL_GUARDED_BY(mu_);
  absl::Time looked_at_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace ckn
