#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/base/endian.h"
#include "server/base/utf8.h"

// What the fuzz targets share. Each is one file NAME_fuzz.cc that defines LLVMFuzzerTestOneInput, linked with libFuzzer
// by the preset "fuzz", and with replay.cc, which runs the files of corpus/NAME, everywhere else.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// A property of the code under test. Also checked where NDEBUG is set.
#define CKN_FUZZ_CHECK(condition, message)                                                                    \
  do {                                                                                                        \
    if (!(condition)) {                                                                                       \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " #condition ": " << (message) << "\n"; /* then abort */ \
      std::abort();                                                                                           \
    }                                                                                                         \
  } while (false)

namespace ckn::testing {

// Takes an input apart. Past its end everything is 0 or empty, so that every input means something.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  std::uint8_t Byte() {
    const std::string_view byte = Bytes(1);
    return byte.empty() ? 0 : static_cast<std::uint8_t>(byte[0]);
  }

  // A length of four bytes, least first, and as many bytes, or what is left of them.
  std::string_view Part() {
    std::uint32_t length = 0;
    const std::string_view bytes = Bytes(sizeof(length));
    std::memcpy(&length, bytes.data(), bytes.size());
    return Bytes(LittleEndian32(length));
  }

  std::string_view Rest() { return Bytes(rest_.size()); }

 private:
  std::string_view Bytes(std::size_t count) {
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

  std::string_view rest_;
};

inline std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// An error says something, in a form that is fit for a log line and for a string of a Protobuf message.
inline void CheckErrorMessage(const absl::Status& status) {
  const std::string message(status.message());
  CKN_FUZZ_CHECK(!message.empty(), status.ToString());
  CKN_FUZZ_CHECK(IsPrintableUtf8(message), status.ToString());
}

}  // namespace ckn::testing
