#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace ckn {

// Of one message once it is parsed.
struct ParseLimits {
  std::int64_t max_elements = 0;  // messages, strings and unknown fields at all levels
  std::int64_t max_bytes = 0;     // of memory
};

// No less than the bytes of memory that `wire` will take once parsed as a message of `type`, found without taking any:
// a message of two bytes a field, all of them empty messages, is a hundred times as large once it is parsed.
//
// INVALID_ARGUMENT: not a message, groups, or more than a limit. `type` must not contain itself.
absl::StatusOr<std::int64_t> ParsedBytes(grpc::ByteBuffer* wire, const google::protobuf::Descriptor& type,
                                         const ParseLimits& limits);

// Checks with ParsedBytes, then parses, and frees `wire`. INVALID_ARGUMENT as there, and for what the type refuses
// (strings that are not UTF-8).
absl::Status ParseMessage(grpc::ByteBuffer* wire, const ParseLimits& limits, google::protobuf::Message* message);

// The bytes that a message takes in memory.
std::int64_t MemoryOf(const google::protobuf::Message& message);

// INTERNAL: longer than 2 GiB.
absl::Status SerializeMessage(const google::protobuf::Message& message, grpc::ByteBuffer* wire);

}  // namespace ckn
