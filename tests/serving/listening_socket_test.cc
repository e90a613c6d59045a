#include "server/serving/listening_socket.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using ::testing::HasSubstr;

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
