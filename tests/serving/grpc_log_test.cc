#include "server/serving/grpc_log.h"

#include <string>

#include "gmock/gmock.h"
#include "grpc/support/log.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/testing/captured_log.h"

namespace ckn {
namespace {

using ::ckn::testing::CapturedLog;

class GrpcLogTest : public ::testing::Test {
 protected:
  GrpcLogTest() {
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // as once gRPC runs
    LogGrpc(spdlog::default_logger(), [this] { ++lost_; });
  }
  ~GrpcLogTest() override { LogGrpc(nullptr, nullptr); }

  CapturedLog log_;
  int lost_ = 0;
};

TEST_F(GrpcLogTest, AMessageIsOneLine) {
  gpr_log(GPR_ERROR, "timeout \"%s\"", "1\n2026-11-29 error forged\x1b[31m");
  EXPECT_EQ(log_.Take(), "warning grpc: timeout \"1 2026-11-29 error forged\\x1b[31m\"\n");
}

TEST_F(GrpcLogTest, WhatComesAgainFromOnePlaceIsCounted) {
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "number %d", i);
  gpr_log(GPR_ERROR, "another place");
  EXPECT_EQ(log_.Take(), "warning grpc: number 0\nwarning grpc: another place\n");
}

TEST_F(GrpcLogTest, TheEndOfListeningIsToldOnce) {
  gpr_log(GPR_ERROR, "not Failed accept4");
  EXPECT_EQ(lost_, 0);
  for (int i = 0; i < 2; ++i) gpr_log(GPR_ERROR, "Failed accept4: %s", "Too many open files");
  EXPECT_EQ(lost_, 1);
}

}  // namespace
}  // namespace ckn
