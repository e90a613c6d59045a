#include "server/serving/wire_message.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "server/base/guarded.h"
#include "server/base/status.h"

namespace ckn {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Of an empty message, an entry of a map, a string or an unknown field, with its place in what holds it; the test
// compares these with what the types of this server take.
constexpr std::int64_t kElementBytes = 320;
// Of one number, in a list that has just doubled its capacity.
constexpr std::int64_t kNumberBytes = 16;

// Whether the field is read as what its type says. If not, the parser keeps it as an unknown one.
bool Fits(const FieldDescriptor& field, WireFormatLite::WireType wire_type) {
  const auto type = static_cast<WireFormatLite::FieldType>(field.type());
  return wire_type == WireFormatLite::WireTypeForFieldType(type) ||
         (wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED && field.is_packable());
}

class Scan {
 public:
  Scan(CodedInputStream& input, const Descriptor& type, const ParseLimits& limits)
      : input_(input), type_(type), limits_(limits) {}

  absl::StatusOr<std::int64_t> Run() {
    CKN_RETURN_IF_ERROR(Element(0));
    CKN_RETURN_IF_ERROR(Message(type_));
    return bytes_;
  }

 private:
  [[nodiscard]] absl::Status Bad(const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(type_.full_name(), ": ", what, " at byte ", input_.CurrentPosition()));
  }
  [[nodiscard]] absl::Status Broken() const { return Bad("not a message in the wire format"); }

  absl::Status Memory(std::int64_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= limits_.max_bytes) return absl::OkStatus();
    return Bad(absl::StrCat("takes more than ", limits_.max_bytes, " bytes of memory"));
  }

  absl::Status Element(std::int64_t length) {
    if (++elements_ > limits_.max_elements) {
      return Bad(absl::StrCat("more than ", limits_.max_elements, " elements"));
    }
    // Protobuf asks for no more than so much at once, and for twice as much whenever that is full.
    constexpr std::int64_t kAtOnce = 50'000'000;
    return Memory(kElementBytes + (length > kAtOnce ? 2 * length : length));
  }

  // What follows the tag of one field; nullptr: of an unknown one.
  absl::Status Field(const FieldDescriptor* field, WireFormatLite::WireType wire_type) {
    switch (wire_type) {
      case WireFormatLite::WIRETYPE_VARINT: {
        std::uint64_t ignored = 0;
        if (!input_.ReadVarint64(&ignored)) return Broken();
        return field == nullptr ? Element(0) : Memory(kNumberBytes);
      }
      case WireFormatLite::WIRETYPE_FIXED32:
      case WireFormatLite::WIRETYPE_FIXED64:
        if (!input_.Skip(wire_type == WireFormatLite::WIRETYPE_FIXED32 ? 4 : 8)) return Broken();
        return field == nullptr ? Element(0) : Memory(kNumberBytes);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
        int length = 0;
        if (!input_.ReadVarintSizeAsInt(&length)) return Broken();
        return LengthDelimited(field, length);
      }
      default:
        return Bad("a group, which no message of this server has,");
    }
  }

  absl::Status LengthDelimited(const FieldDescriptor* field, int length) {
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      CKN_RETURN_IF_ERROR(Element(0));
      const CodedInputStream::Limit outer = input_.PushLimit(length);
      if (input_.BytesUntilLimit() != length) return Broken();  // longer than what holds it
      CKN_RETURN_IF_ERROR(Message(*field->message_type()));
      input_.PopLimit(outer);
      return absl::OkStatus();
    }
    if (field != nullptr && field->is_packable()) {
      // The shortest number is one byte on the wire; floating-point ones are as long there as in memory.
      const bool fixed = WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field->type())) !=
                         WireFormatLite::WIRETYPE_VARINT;
      const bool wide =
          field->cpp_type() == FieldDescriptor::CPPTYPE_INT64 || field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
      CKN_RETURN_IF_ERROR(Memory(kNumberBytes + std::int64_t{length} * (fixed ? 2 : wide ? 16 : 8)));
    } else {
      CKN_RETURN_IF_ERROR(Element(length));
    }
    if (!input_.Skip(length)) return Broken();
    return absl::OkStatus();
  }

  // No type of this server's contains itself, so this does not go deep.
  absl::Status Message(const Descriptor& type) {
    while (const std::uint32_t tag = input_.ReadTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      if (number == 0) return Broken();
      const WireFormatLite::WireType wire_type = WireFormatLite::GetTagWireType(tag);
      const FieldDescriptor* const field = type.FindFieldByNumber(number);
      CKN_RETURN_IF_ERROR(Field(field != nullptr && Fits(*field, wire_type) ? field : nullptr, wire_type));
    }
    if (!input_.ConsumedEntireMessage()) return Broken();
    return absl::OkStatus();
  }

  CodedInputStream& input_;
  const Descriptor& type_;
  const ParseLimits& limits_;
  std::int64_t elements_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::int64_t> ParsedBytes(grpc::ByteBuffer* wire, const Descriptor& type, const ParseLimits& limits) {
  grpc::ProtoBufferReader reader(wire);
  if (!reader.status().ok())
    return absl::InvalidArgumentError(absl::StrCat(type.full_name(), ": no whole message came"));
  CodedInputStream input(&reader);
  return Scan(input, type, limits).Run();
}

absl::Status ParseMessage(grpc::ByteBuffer* wire, const ParseLimits& limits, google::protobuf::Message* message) {
  return Guarded([&]() -> absl::Status {
    CKN_RETURN_IF_ERROR(ParsedBytes(wire, *message->GetDescriptor(), limits).status());
    {
      grpc::ProtoBufferReader reader(wire);
      if (!message->ParseFromZeroCopyStream(&reader)) {
        return absl::InvalidArgumentError(
            absl::StrCat(message->GetDescriptor()->full_name(), ": a string that is not UTF-8, or a broken field"));
      }
    }
    wire->Clear();
    return absl::OkStatus();
  });
}

std::int64_t MemoryOf(const google::protobuf::Message& message) {
#if defined(__SANITIZE_THREAD__)
  // Protobuf's headers lay maps out in another way for ThreadSanitizer than the library that is installed.
  return static_cast<std::int64_t>(message.ByteSizeLong());
#else
  return static_cast<std::int64_t>(message.SpaceUsedLong());
#endif
}

absl::Status SerializeMessage(const google::protobuf::Message& message, grpc::ByteBuffer* wire) {
  bool own_buffer = false;
  const grpc::Status status =
      grpc::SerializationTraits<google::protobuf::Message>::Serialize(message, wire, &own_buffer);
  if (status.ok()) return absl::OkStatus();
  return absl::InternalError(status.error_message());
}

}  // namespace ckn
