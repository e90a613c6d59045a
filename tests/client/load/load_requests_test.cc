#include "client/load/load_requests.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kNoLimit = std::int64_t{1} << 40;

v1::Image Encoded(const std::string& bytes) {
  v1::Image image;
  image.set_encoded(bytes);
  return image;
}

template <typename Message>
Message Parsed(grpc::ByteBuffer buffer) {
  Message message;
  EXPECT_TRUE(grpc::SerializationTraits<Message>::Deserialize(&buffer, &message).ok());
  return message;
}

grpc::ByteBuffer Serialised(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

TEST(LoadRequestsTest, NativeRequestsHoldTheImagesInTurn) {
  const std::vector<v1::Image> images = {Encoded("a"), Encoded("b"), Encoded("c")};
  const auto requests = MakeRequests({.model = "m", .model_version = "2", .batch = 2}, images, kNoLimit);
  ASSERT_TRUE(requests.ok()) << requests.status();
  ASSERT_EQ(requests->size(), 2U);  // a b, c a
  const auto second = Parsed<v1::ClassifyRequest>((*requests)[1]);
  EXPECT_EQ(second.model(), "m");
  EXPECT_EQ(second.version(), "2");
  ASSERT_EQ(second.images_size(), 2);
  EXPECT_EQ(second.images(0).encoded(), "c");
  EXPECT_EQ(second.images(1).encoded(), "a");
}

TEST(LoadRequestsTest, ABatchMayBeLargerThanTheNumberOfImages) {
  const auto requests =
      MakeRequests({.method = LoadMethod::kEncode, .batch = 5}, {Encoded("a"), Encoded("b")}, kNoLimit);
  ASSERT_TRUE(requests.ok());
  ASSERT_EQ(requests->size(), 1U);
  EXPECT_EQ(Parsed<v1::EncodeRequest>((*requests)[0]).images_size(), 5);
}

TEST(LoadRequestsTest, OpenInferenceRequestsHoldRawTensors) {
  const RequestOptions options{.protocol = LoadProtocol::kOpenInference, .model = "m", .batch = 2};
  const auto files = MakeRequests(options, {Encoded("abc"), Encoded("d")}, kNoLimit);
  ASSERT_TRUE(files.ok());
  const auto file_request = Parsed<inference::ModelInferRequest>((*files)[0]);
  EXPECT_EQ(file_request.inputs(0).name(), "image");
  EXPECT_EQ(file_request.inputs(0).datatype(), "BYTES");
  EXPECT_EQ(file_request.raw_input_contents(0), std::string("\3\0\0\0abc\1\0\0\0d", 12));

  const auto pixels = MakeRequests(options, {NoiseImage(2, 3, 1, 1), NoiseImage(2, 3, 1, 2)}, kNoLimit);
  ASSERT_TRUE(pixels.ok());
  const auto pixel_request = Parsed<inference::ModelInferRequest>((*pixels)[0]);
  EXPECT_EQ(pixel_request.inputs(0).datatype(), "UINT8");
  EXPECT_THAT(pixel_request.inputs(0).shape(), ::testing::ElementsAre(2, 2, 3, 1));
  EXPECT_EQ(pixel_request.raw_input_contents(0),
            NoiseImage(2, 3, 1, 1).pixels().data() + NoiseImage(2, 3, 1, 2).pixels().data());
  EXPECT_NE(NoiseImage(2, 3, 1, 1).pixels().data(), NoiseImage(2, 3, 1, 2).pixels().data());
}

TEST(LoadRequestsTest, RequestsOverTheLimitAreRefused) {
  const auto requests = MakeRequests({.batch = 4}, {Encoded(std::string(100, 'x'))}, 400);
  EXPECT_EQ(requests.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(requests.status().message()), HasSubstr("the limit is 400"));
}

TEST(ReplyReaderTest, CountsTheImagesOfANativeReplyByCode) {
  ReplyReader reader({.batch = 3});
  v1::ClassifyResponse response;
  for (const int code : {0, 3, 99}) response.add_results()->mutable_status()->set_code(code);
  CodeCounts images{};
  grpc::ByteBuffer bytes = Serialised(response);
  EXPECT_TRUE(reader.Read(bytes, images).ok());
  EXPECT_EQ(images[0], 1);
  EXPECT_EQ(images[3], 1);
  EXPECT_EQ(images[2], 1);  // 99 is no code: UNKNOWN
}

TEST(ReplyReaderTest, RepliesThatAreNoneAreInternalErrors) {
  CodeCounts images{};
  v1::ClassifyResponse response;
  response.add_results();
  grpc::ByteBuffer one = Serialised(response);
  EXPECT_THAT(ReplyReader({.batch = 2}).Read(one, images).ToString(), HasSubstr("about 1 images, expected 2"));
  const grpc::Slice slice(std::string("\xff\xff\xff"));
  grpc::ByteBuffer garbage(&slice, 1);
  EXPECT_EQ(ReplyReader({}).Read(garbage, images).code(), absl::StatusCode::kInternal);
  inference::ModelInferResponse infer;
  infer.add_outputs()->add_shape(1);
  grpc::ByteBuffer inferred = Serialised(infer);
  EXPECT_EQ(ReplyReader({.protocol = LoadProtocol::kOpenInference, .batch = 2}).Read(inferred, images).code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(images, CodeCounts{});
}

TEST(ReplyReaderTest, AnswersInAStreamCarryTheirStatus) {
  ReplyReader reader({.protocol = LoadProtocol::kOpenInference, .stream = true, .batch = 2});
  CodeCounts images{};
  inference::ModelStreamInferResponse good;
  good.mutable_infer_response()->add_outputs()->add_shape(2);
  grpc::ByteBuffer good_bytes = Serialised(good);
  EXPECT_TRUE(reader.Read(good_bytes, images).ok());
  EXPECT_EQ(images[0], 2);
  for (const auto& [message, code] :
       std::vector<std::pair<std::string, absl::StatusCode>>{{"NOT_FOUND: no model", absl::StatusCode::kNotFound},
                                                             {"OK: no error", absl::StatusCode::kUnknown},
                                                             {"something else: here", absl::StatusCode::kUnknown},
                                                             {"no colon", absl::StatusCode::kUnknown}}) {
    inference::ModelStreamInferResponse bad;
    bad.set_error_message(message);
    grpc::ByteBuffer bytes = Serialised(bad);
    EXPECT_EQ(reader.Read(bytes, images).code(), code) << message;
  }
  EXPECT_EQ(images[0], 2);
}

TEST(StatusCodesTest, NamesOfAllCodesAreRead) {
  for (int code = 0; code < kStatusCodes; ++code) {
    const auto status_code = static_cast<absl::StatusCode>(code);
    EXPECT_EQ(ParseStatusCode(absl::StatusCodeToString(status_code)), status_code);
  }
  EXPECT_EQ(ParseStatusCode("unavailable"), std::nullopt);
  EXPECT_EQ(ParseStatusCode(""), std::nullopt);
}

}  // namespace
}  // namespace ckn
