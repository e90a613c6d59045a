#include "server/base/sha256.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ckn {
namespace {

// Test vectors of FIPS 180-4.
TEST(Sha256Test, KnownDigests) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesGiveTheDigestOfTheWhole) {
  Sha256 hash;
  hash.Update("a");
  hash.Update("");
  hash.Update(std::vector<std::uint8_t>{'b', 'c'});
  EXPECT_EQ(hash.HexDigest(), Sha256Hex("abc"));
}

TEST(Sha256Test, DigestIsTheBytesOfTheHexDigest) {
  const std::string digest = Sha256Digest("abc");
  ASSERT_EQ(digest.size(), 32U);
  EXPECT_EQ(digest.substr(0, 4), "\xba\x78\x16\xbf");
}

}  // namespace
}  // namespace ckn
