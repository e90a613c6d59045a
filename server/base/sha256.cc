#include "server/base/sha256.h"

#include <openssl/evp.h>

#include <cstdlib>

#include "absl/strings/escaping.h"

namespace ckn {
namespace {

// SHA-256 takes any input, so OpenSSL fails here only without memory or without the algorithm: nothing to carry on
// with.
void Require(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Require(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) {
  Require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

void Sha256::Update(std::span<const std::uint8_t> bytes) {
  Require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Digest() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  Require(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1 && size == kDigestBytes);
  return {digest, digest + size};
}

std::string Sha256::HexDigest() { return absl::BytesToHexString(Digest()); }

std::string Sha256Digest(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Digest();
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.HexDigest();
}

}  // namespace ckn
