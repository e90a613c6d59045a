#include "server/serving/status_to_grpc.h"

#include "gtest/gtest.h"

namespace ckn {
namespace {

struct CodePair {
  absl::StatusCode absl_code;
  grpc::StatusCode grpc_code;
};

class StatusToGrpcTest : public ::testing::TestWithParam<CodePair> {};

TEST_P(StatusToGrpcTest, KeepsCodeAndMessage) {
  const grpc::Status status = StatusToGrpc(absl::Status(GetParam().absl_code, "what, where, got, expected"));
  EXPECT_EQ(status.error_code(), GetParam().grpc_code);
  EXPECT_EQ(status.error_message(), "what, where, got, expected");
}

// Every code but OK, by name on both sides.
INSTANTIATE_TEST_SUITE_P(
    AllCodes, StatusToGrpcTest,
    ::testing::Values(CodePair{absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED},
                      CodePair{absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN},
                      CodePair{absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
                      CodePair{absl::StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
                      CodePair{absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND},
                      CodePair{absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
                      CodePair{absl::StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED},
                      CodePair{absl::StatusCode::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED},
                      CodePair{absl::StatusCode::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION},
                      CodePair{absl::StatusCode::kAborted, grpc::StatusCode::ABORTED},
                      CodePair{absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE},
                      CodePair{absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED},
                      CodePair{absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL},
                      CodePair{absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE},
                      CodePair{absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS},
                      CodePair{absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED}),
    [](const auto& code) { return absl::StatusCodeToString(code.param.absl_code); });

TEST(StatusToGrpcOkTest, OkIsOk) { EXPECT_TRUE(StatusToGrpc(absl::OkStatus()).ok()); }

TEST(StatusToGrpcOkTest, CodeOutsideTheEnumerationBecomesUnknown) {
  const grpc::Status status = StatusToGrpc(absl::Status(static_cast<absl::StatusCode>(99), "odd"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNKNOWN);
}

TEST(StatusToGrpcOkTest, CutsMessagesThatWouldNotFitIntoTrailers) {
  EXPECT_EQ(StatusToGrpc(absl::InternalError(std::string(100'000, 'x'))).error_message(), std::string(2048, 'x'));
  EXPECT_EQ(StatusToGrpc(absl::InternalError(std::string(2047, 'x') + "é")).error_message(), std::string(2047, 'x'));
}

}  // namespace
}  // namespace ckn
