#include "server/serving/host_port.h"

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

TEST(ListeningSocketTest, TakenPortIsAnErrorThatNamesIt) {
  const auto first = ListeningSocket::Open({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_GT(first->port(), 0);
  const HostPort taken{.host = "127.0.0.1", .port = first->port()};
  const auto second = ListeningSocket::Open(taken);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(taken.ToString()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST(ListeningSocketTest, PortIsFreeAgainOnceClosed) {
  HostPort address{.host = "localhost", .port = 0};
  {
    const auto socket = ListeningSocket::Open(address);
    ASSERT_TRUE(socket.ok()) << socket.status();
    address.port = socket->port();
  }
  EXPECT_TRUE(ListeningSocket::Open(address).ok());
}

TEST(ListeningSocketTest, RefusesAnAddressOfAnotherMachine) {
  // 192.0.2.0/24 is reserved for documentation.
  const auto socket = ListeningSocket::Open({.host = "192.0.2.1", .port = 0});
  EXPECT_EQ(socket.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ckn
