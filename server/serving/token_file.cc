#include "server/serving/token_file.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/quote.h"
#include "server/base/regular_file.h"
#include "server/base/status.h"
#include "spdlog/spdlog.h"

namespace ckn {
namespace {

constexpr std::size_t kMinTokenBytes = 16;
constexpr std::uint64_t kMaxFileBytes = 1 << 20;
constexpr std::string_view kScheme = "Bearer ";

std::array<unsigned char, 32> Sha256(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(const std::string& path, const Clock& clock) {
  std::unique_ptr<TokenFile> file(new TokenFile(path, clock));
  const absl::MutexLock lock(&file->mu_);
  CKN_RETURN_IF_ERROR(Annotate(file->Read(), Printable(path)));
  return file;
}

absl::Status TokenFile::Read() {
  CKN_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path_, kMaxFileBytes));
  std::vector<Digest> digests;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    // The token itself must not get into a log.
    if (line.size() < kMinTokenBytes || line.find_first_of(" \t") != absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": got a token of ", line.size(),
                                                     " bytes, expected at least ", kMinTokenBytes, " and no blanks"));
    }
    digests.push_back(Sha256({line.data(), line.size()}));
  }
  if (digests.empty()) return absl::InvalidArgumentError("got no token, expected one a line");
  digests_ = std::move(digests);
  return absl::OkStatus();
}

bool TokenFile::Allows(std::string_view authorization) {
  const bool bearer = authorization.substr(0, kScheme.size()) == kScheme;
  const Digest digest = Sha256(authorization.substr(std::min(authorization.size(), kScheme.size())));
  const absl::MutexLock lock(&mu_);
  if (const absl::Time now = clock_.Now(); now - looked_at_ >= absl::Seconds(1)) {
    looked_at_ = now;
    if (const FileIdentity identity = IdentityOf(path_); identity != identity_) {
      identity_ = identity;
      const absl::Status status = Read();
      if (!status.ok()) {
        spdlog::error("{}: {}; the tokens that were there stay", Printable(path_), std::string(status.message()));
      }
    }
  }
  bool known = false;
  for (const Digest& token : digests_) known |= CRYPTO_memcmp(token.data(), digest.data(), digest.size()) == 0;
  return known && bearer;
}

}  // namespace ckn
