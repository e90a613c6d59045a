#include "server/serving/http_endpoint.h"

#include <atomic>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/http_get.h"

namespace ckn {
namespace {

using ::ckn::testing::HttpGet;
using ::testing::HasSubstr;

const HostPort kAnyPort{.host = "127.0.0.1", .port = 0};

TEST(HttpEndpointTest, ServesMetricsAsPrometheusText) {
  auto endpoint = HttpEndpoint::Start(kAnyPort, {.metrics = [] { return "x 1\n"; }, .ready = [] { return true; }});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  ASSERT_GT((*endpoint)->port(), 0);
  const auto reply = HttpGet((*endpoint)->port(), "/metrics");
  EXPECT_EQ(reply.code, 200);
  EXPECT_EQ(reply.body, "x 1\n");
  EXPECT_THAT(reply.head, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
}

TEST(HttpEndpointTest, ReadinessFollowsTheServerAndHealthDoesNot) {
  std::atomic<bool> ready = false;
  auto endpoint = HttpEndpoint::Start(kAnyPort, {.metrics = [] { return ""; }, .ready = [&] { return ready.load(); }});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const int port = (*endpoint)->port();
  EXPECT_EQ(HttpGet(port, "/readyz").code, 503);
  EXPECT_EQ(HttpGet(port, "/healthz").code, 200);
  ready = true;
  EXPECT_EQ(HttpGet(port, "/readyz").code, 200);
  ready = false;
  EXPECT_EQ(HttpGet(port, "/readyz").code, 503);
  EXPECT_EQ(HttpGet(port, "/healthz").code, 200);
}

TEST(HttpEndpointTest, AnswersNothingElse) {
  auto endpoint = HttpEndpoint::Start(kAnyPort, {.metrics = [] { return "x 1\n"; }, .ready = [] { return true; }});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_EQ(HttpGet((*endpoint)->port(), "/").code, 404);
  EXPECT_EQ(HttpGet((*endpoint)->port(), "/etc/passwd").code, 404);
}

TEST(HttpEndpointTest, IsThereAgainRightAfterARestart) {
  HostPort address = kAnyPort;
  for (int i = 0; i < 3; ++i) {
    auto endpoint = HttpEndpoint::Start(address, {.metrics = [] { return ""; }, .ready = [] { return true; }});
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    address.port = (*endpoint)->port();
    EXPECT_EQ(HttpGet(address.port, "/readyz").code, 200);
  }
}

TEST(HttpEndpointTest, TakenPortIsAnErrorThatNamesIt) {
  const HttpHandlers handlers{.metrics = [] { return ""; }, .ready = [] { return true; }};
  auto first = HttpEndpoint::Start(kAnyPort, handlers);
  ASSERT_TRUE(first.ok()) << first.status();
  const HostPort taken{.host = "127.0.0.1", .port = (*first)->port()};
  const auto second = HttpEndpoint::Start(taken, handlers);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(taken.ToString()));
}

}  // namespace
}  // namespace ckn
