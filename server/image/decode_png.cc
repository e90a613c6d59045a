#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/quote.h"
#include "server/image/codecs.h"

namespace ckn {
namespace {

// libpng reports errors by longjmp, so the functions that call it hold nothing that needs a destructor; everything
// that does lives here, outside.
struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> rest;
  char error[128] = "out of memory";
  int channels = 0;

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
  std::strncpy(reader->error, message, sizeof(reader->error) - 1);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

void OnRead(png_structp png, png_bytep out, std::size_t count) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->rest.size()) png_error(png, "the file is cut off");
  std::memcpy(out, reader->rest.data(), count);
  reader->rest = reader->rest.subspan(count);
}

// Reads up to the pixels and asks for 8-bit gray, gray + alpha, RGB or RGB + alpha.
bool ReadInfo(Reader& reader) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, OnError, OnWarning);
  if (reader.png == nullptr) return false;
  reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return false;
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;  // NOLINT: libpng's way to report errors
  png_set_crc_action(reader.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  // Everything but IHDR, PLTE, tRNS, IDAT and IEND is passed over: libpng would ask for as much memory for an eXIf
  // chunk as the chunk says it takes.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_read_fn(reader.png, &reader, OnRead);
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);    // palette, fewer than 8 bits, transparent colour
  png_set_strip_16(reader.png);  // keeps the upper 8 bits
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  reader.channels = png_get_channels(reader.png, reader.info);
  return true;
}

bool ReadRows(Reader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;  // NOLINT
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

absl::StatusOr<ImageU8> DecodePng(std::span<const std::byte> file, const FileHeader& header) {
  Reader reader;
  reader.rest = file;
  const auto failed = [&reader] { return absl::InvalidArgumentError(absl::StrCat("PNG: ", OneLine(reader.error))); };
  if (!ReadInfo(reader)) return failed();

  ImageU8 image;
  image.height = static_cast<int>(header.height);
  image.width = static_cast<int>(header.width);
  image.channels = reader.channels;
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * image.channels;
  image.pixels.resize(row_bytes * static_cast<std::size_t>(image.height));
  std::vector<png_bytep> rows(static_cast<std::size_t>(image.height));
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = image.pixels.data() + y * row_bytes;
  if (!ReadRows(reader, rows.data())) return failed();

  ComposeOverBlack(image);
  return image;
}

}  // namespace ckn
