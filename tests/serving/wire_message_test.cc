#include "server/serving/wire_message.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckn/v1/inference.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/open_inference.pb.h"

namespace ckn {
namespace {

using ::testing::HasSubstr;

constexpr ParseLimits kNoLimits{.max_elements = std::numeric_limits<std::int64_t>::max(),
                                .max_bytes = std::numeric_limits<std::int64_t>::max()};

grpc::ByteBuffer Wire(const std::string& bytes, std::size_t pieces = 1) {
  std::vector<grpc::Slice> slices;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t begin = piece * bytes.size() / pieces, end = (piece + 1) * bytes.size() / pieces;
    slices.emplace_back(bytes.substr(begin, end - begin));
  }
  return {slices.data(), slices.size()};
}

std::string Repeated(const std::string& bytes, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += bytes;
  return out;
}

// A field of two bytes: an empty message, string or list.
std::string Empty(int field) { return {static_cast<char>(field << 3 | 2), '\0'}; }

// Field `field` that holds `content`.
std::string Holding(int field, const std::string& content) {
  std::string out(1, static_cast<char>(field << 3 | 2));
  for (std::size_t left = content.size();; left >>= 7) {
    if (left < 0x80) {
      out += static_cast<char>(left);
      break;
    }
    out += static_cast<char>((left & 0x7f) | 0x80);
  }
  return out + content;
}

template <typename Message>
void ExpectBound(const std::string& bytes) {
  Message message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  grpc::ByteBuffer wire = Wire(bytes);
  const absl::StatusOr<std::int64_t> bound = ParsedBytes(&wire, *Message::descriptor(), kNoLimits);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_GE(*bound, MemoryOf(message));
  EXPECT_LE(*bound, 400 * static_cast<std::int64_t>(bytes.size()) + 1000) << "of any use";
}

TEST(WireMessageTest, MemoryIsBoundedForEveryKindOfField) {
  constexpr int kMany = 3000;
  ExpectBound<v1::ClassifyRequest>("");
  ExpectBound<v1::ClassifyRequest>(Repeated(Empty(2), kMany));                          // images
  ExpectBound<v1::ClassifyRequest>(Repeated(Holding(2, Empty(1)), kMany));              // image { encoded }
  ExpectBound<v1::ClassifyRequest>(Repeated(Holding(2, Empty(2)), kMany));              // image { pixels }
  ExpectBound<v1::ClassifyRequest>(Holding(2, Holding(1, std::string(1 << 16, 'x'))));  // a long file
  ExpectBound<v1::ClassifyRequest>(Repeated(Empty(15), kMany));                         // unknown, of length 0
  ExpectBound<v1::ClassifyRequest>(Repeated(std::string("\x78\x01", 2), kMany));        // unknown numbers
  ExpectBound<v1::ClassifyRequest>(Repeated(Holding(2, Empty(15)), kMany));             // unknown, further in
  ExpectBound<inference::ModelInferRequest>(Repeated(Empty(5), kMany));                 // inputs
  ExpectBound<inference::ModelInferRequest>(Repeated(Holding(5, Empty(5)), kMany));     // input { contents }
  ExpectBound<inference::ModelInferRequest>(Repeated(Empty(6), kMany));                 // outputs
  ExpectBound<inference::ModelInferRequest>(Repeated(Empty(7), kMany));                 // raw contents
  for (int field = 1; field <= 8; ++field) {                                            // lists of numbers
    const std::string numbers(8 * kMany, '\0');
    ExpectBound<inference::ModelInferRequest>(
        Holding(5, Holding(5, field == 8 ? Repeated(Empty(8), kMany) : Holding(field, numbers))));
  }
  // Known fields with a wire type that is not theirs, which are kept as unknown ones, also few of them.
  for (const int times : {1, 3, 9, 33, kMany}) {
    for (const char field : {1, 2, 3, 4, 5, 6, 7}) {
      for (const std::string& value : {std::string("\0\x01", 2), std::string("\x01\0\0\0\0\0\0\0\0", 9),
                                       std::string("\x02\0", 2), std::string("\x05\0\0\0\0", 5)}) {
        std::string bytes = value;
        bytes.front() = static_cast<char>(field << 3 | value.front());
        ExpectBound<v1::ClassifyRequest>(Repeated(bytes, times));
        ExpectBound<inference::ModelInferRequest>(Repeated(bytes, times));
        ExpectBound<inference::ModelInferRequest>(Holding(5, Repeated(bytes, times)));
        ExpectBound<inference::ModelInferRequest>(Holding(5, Holding(5, Repeated(bytes, times))));
      }
    }
  }
  std::string parameters;
  for (int i = 0; i < kMany; ++i) parameters += Holding(4, Holding(1, absl::StrCat(i)) + Empty(2));
  ExpectBound<inference::ModelInferRequest>(parameters);
}

// Beyond 50 MB Protobuf doubles what it has asked for.
TEST(WireMessageTest, MemoryIsBoundedForALongFile) {
  const std::string image = Holding(1, std::string(51 << 20, 'x'));
  grpc::ByteBuffer wire = Wire(Holding(2, image));
  const auto bound = ParsedBytes(&wire, *v1::ClassifyRequest::descriptor(), kNoLimits);
  ASSERT_TRUE(bound.ok());
  v1::ClassifyRequest request;
  ASSERT_TRUE(ParseMessage(&wire, kNoLimits, &request).ok());
  EXPECT_GE(*bound, MemoryOf(request));
}

TEST(WireMessageTest, TheLimitsAreExact) {
  for (const int images : {9, 10, 11}) {
    grpc::ByteBuffer wire = Wire(Repeated(Empty(2), images));
    const auto bytes =
        ParsedBytes(&wire, *v1::ClassifyRequest::descriptor(), {.max_elements = 11, .max_bytes = kNoLimits.max_bytes});
    EXPECT_EQ(bytes.ok(), images <= 10) << "the request itself is one";
    if (!bytes.ok()) {
      EXPECT_THAT(bytes.status().message(), HasSubstr("ckn.v1.ClassifyRequest: more than 11 elements"));
    }
    const auto needed = ParsedBytes(&wire, *v1::ClassifyRequest::descriptor(), kNoLimits);
    ASSERT_TRUE(needed.ok());
    for (const std::int64_t less : {0, 1}) {
      EXPECT_EQ(
          ParsedBytes(&wire, *v1::ClassifyRequest::descriptor(), {.max_elements = 100, .max_bytes = *needed - less})
              .ok(),
          less == 0);
    }
  }
}

TEST(WireMessageTest, WhatIsNoMessageIsRefused) {
  for (const std::string& bytes : {std::string("\x12\x05\x01", 3),             // shorter than it says
                                   std::string("\x12", 1),                     // no length
                                   std::string("\x02\x00", 2),                 // field 0
                                   std::string("\x13\x14", 2),                 // a group
                                   std::string("\x0c", 1),                     // the end of one
                                   std::string("\x17\x00", 2),                 // wire type 7
                                   std::string(11, '\xff'),                    // a varint without end
                                   Holding(2, std::string("\x0a\x7f", 2))}) {  // longer than what holds it
    for (const std::size_t pieces : {1U, 2U}) {
      grpc::ByteBuffer wire = Wire(bytes, pieces);
      v1::ClassifyRequest request;
      EXPECT_EQ(ParseMessage(&wire, kNoLimits, &request).code(), absl::StatusCode::kInvalidArgument);
    }
  }
  grpc::ByteBuffer wire = Wire(Holding(1, "\xff"));
  v1::ClassifyRequest request;
  EXPECT_EQ(ParseMessage(&wire, kNoLimits, &request).code(), absl::StatusCode::kInvalidArgument) << "not UTF-8";
}

TEST(WireMessageTest, MessagesComeThroughWholeAndTheirBytesAreFreed) {
  v1::ClassifyRequest sent;
  sent.set_model("m");
  sent.set_top_k(3);
  for (int i = 0; i < 5; ++i) sent.add_images()->mutable_pixels()->set_data(std::string(10000, 'p'));
  for (const std::size_t pieces : {1U, 3U, 1000U}) {
    grpc::ByteBuffer wire = Wire(sent.SerializeAsString(), pieces);
    v1::ClassifyRequest got;
    const absl::Status status = ParseMessage(&wire, kNoLimits, &got);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(got.SerializeAsString(), sent.SerializeAsString());
    EXPECT_EQ(wire.Length(), 0U);
  }
  grpc::ByteBuffer wire;
  ASSERT_TRUE(SerializeMessage(sent, &wire).ok());
  v1::ClassifyRequest got;
  ASSERT_TRUE(ParseMessage(&wire, kNoLimits, &got).ok());
  EXPECT_EQ(got.SerializeAsString(), sent.SerializeAsString());
}

}  // namespace
}  // namespace ckn
