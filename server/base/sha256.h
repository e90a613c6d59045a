#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace ckn {

// SHA-256 of a stream of bytes.
class Sha256 {
 public:
  static constexpr int kDigestBytes = 32;

  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);
  void Update(std::span<const std::uint8_t> bytes);
  // The 32 bytes of the digest; nothing may be called after it.
  std::string Digest();
  // The same as 64 lower-case hex digits.
  std::string HexDigest();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Digest and hex digest of one piece.
std::string Sha256Digest(std::string_view bytes);
std::string Sha256Hex(std::string_view bytes);

}  // namespace ckn
