// What the client does without a server; tests/e2e has the calls that are answered.
#include "client/client.h"

#include <string>

#include "client/bulk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::ckn::testing::TempDir;
using ::testing::HasSubstr;

// Nobody listens on port 1 of the loopback interface.
constexpr char kNoServer[] = "127.0.0.1:1";

TEST(ClientTest, NoServerIsUnavailable) {
  const Client client(kNoServer);
  EXPECT_EQ(client.ListModels().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client.Classify({}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client.Encode({}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client.CheckHealth().code(), absl::StatusCode::kUnavailable);
}

TEST(ClientTest, WaitsForAServerNoLongerThanTheTimeout) {
  const Client client(kNoServer, {.timeout = absl::Milliseconds(50), .wait_for_ready = true});
  EXPECT_EQ(client.ListModels().status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(ClientTest, NonsenseAddressIsAnErrorNotACrash) {
  const Client client("no such host.invalid:port", {.timeout = absl::Seconds(20)});
  EXPECT_FALSE(client.ListModels().ok());
}

TEST(StatusOfTest, KeepsCodeAndMessage) {
  v1::ItemStatus item;
  EXPECT_TRUE(StatusOf(item).ok());
  item.set_code(3);
  item.set_message("image 1: bad");
  EXPECT_EQ(StatusOf(item), absl::InvalidArgumentError("image 1: bad"));
}

TEST(BulkTest, UnreadableFilesAndACallThatFailsHaveTheirOwnStatus) {
  const TempDir folder;
  const std::string good = folder.Write("a.png", "bytes");
  const std::string big = folder.Write("big.png", std::string(5000, 'x'));
  const Client client(kNoServer);
  const auto bulk = ClassifyFiles(client, {folder.File("missing.png"), good, big, good},
                                  {.model = "", .batch = 1, .max_message_bytes = 6000});
  ASSERT_EQ(bulk.files.size(), 4U);
  EXPECT_EQ(bulk.files[0].status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(bulk.files[1].status.code(), absl::StatusCode::kUnavailable);
  // No more calls after one that failed as a whole.
  EXPECT_EQ(bulk.files[2].status, bulk.files[1].status);
  EXPECT_EQ(bulk.files[3].status, bulk.files[1].status);
}

TEST(BulkTest, FileLargerThanAMessageIsNotSent) {
  const TempDir folder;
  const std::string big = folder.Write("big.png", std::string(5000, 'x'));
  const Client client(kNoServer);
  const auto bulk = ClassifyFiles(client, {big}, {.model = "", .max_message_bytes = 5000});
  EXPECT_EQ(bulk.files[0].status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(bulk.files[0].status.message()), HasSubstr("larger than"));
}

}  // namespace
}  // namespace ckn
