#include "server/base/host_port.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using ::testing::HasSubstr;

TEST(ParseHostPortTest, ReadsNamesAndBothFamilies) {
  const auto ipv4 = ParseHostPort("127.0.0.1:8500");
  ASSERT_TRUE(ipv4.ok()) << ipv4.status();
  EXPECT_EQ(ipv4->host, "127.0.0.1");
  EXPECT_EQ(ipv4->port, 8500);
  EXPECT_EQ(ipv4->ToString(), "127.0.0.1:8500");

  const auto ipv6 = ParseHostPort("[::1]:0");
  ASSERT_TRUE(ipv6.ok()) << ipv6.status();
  EXPECT_EQ(ipv6->host, "::1");
  EXPECT_EQ(ipv6->port, 0);
  EXPECT_EQ(ipv6->ToString(), "[::1]:0");

  const auto name = ParseHostPort("localhost:65535");
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(name->host, "localhost");
  EXPECT_EQ(name->port, 65535);
}

TEST(ParseHostPortTest, AUrlIsToldFromAnAddress) {
  EXPECT_THAT(std::string(ParseHostPort("http://localhost:8500").status().message()), HasSubstr("it has a scheme"));
}

class BadHostPortTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BadHostPortTest, IsRejectedWithWhatWasExpected) {
  const auto parsed = ParseHostPort(GetParam());
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("expected HOST:PORT"));
}

INSTANTIATE_TEST_SUITE_P(All, BadHostPortTest,
                         ::testing::Values("", "8500", "localhost", "localhost:", ":8500", "[]:1", "localhost:http",
                                           "localhost:-1", "localhost:65536", "localhost:8500 ", "localhost:+1",
                                           "localhost:99999999999999999999", "::1:8500", "[::1:8500", "a]:1"));

}  // namespace
}  // namespace ckn
