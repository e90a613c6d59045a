// jpeglib.h needs FILE and size_t declared before it.
#include <cstddef>
#include <cstdio>

// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/quote.h"
#include "server/image/codecs.h"

namespace ckn {
namespace {

// A progressive file may hold any number of scans, each of which costs a pass over the whole picture: a small file
// could keep a thread busy for hours. Encoders write about ten.
constexpr int kMaxScans = 200;

// libjpeg reports errors by longjmp, so the functions that call it hold nothing that needs a destructor.
struct Reader {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf jump = {};
  char error[JMSG_LENGTH_MAX] = "";

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { jpeg_destroy_decompress(&jpeg); }
};

[[noreturn]] void OnError(j_common_ptr jpeg) {
  auto* reader = static_cast<Reader*>(jpeg->client_data);
  if (reader->error[0] == '\0') (*jpeg->err->format_message)(jpeg, reader->error);
  std::longjmp(reader->jump, 1);  // NOLINT: libjpeg's way to report errors
}

// Warnings that mean "some of the picture was made up" are errors here; oddities that cost no pixel are not.
void OnMessage(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
      OnError(jpeg);
    default:
      break;
  }
}

void OnOutput(j_common_ptr) {}

void OnProgress(j_common_ptr jpeg) {
  auto* reader = static_cast<Reader*>(jpeg->client_data);
  if (reader->jpeg.input_scan_number <= kMaxScans) return;
  std::snprintf(reader->error, sizeof(reader->error), "more than %d scans", kMaxScans);
  OnError(jpeg);
}

bool ReadHeader(Reader& reader, std::span<const std::byte> file) {
  reader.jpeg.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = OnError;
  reader.errors.emit_message = OnMessage;
  reader.errors.output_message = OnOutput;
  reader.jpeg.client_data = &reader;
  if (setjmp(reader.jump) != 0) return false;  // NOLINT
  jpeg_create_decompress(&reader.jpeg);
  reader.progress.progress_monitor = OnProgress;
  reader.jpeg.progress = &reader.progress;
  jpeg_mem_src(&reader.jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&reader.jpeg, TRUE);
  return true;
}

bool ReadRows(Reader& reader, std::uint8_t* pixels, std::size_t row_bytes) {
  if (setjmp(reader.jump) != 0) return false;  // NOLINT
  jpeg_start_decompress(&reader.jpeg);
  while (reader.jpeg.output_scanline < reader.jpeg.output_height) {
    JSAMPROW row = pixels + reader.jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&reader.jpeg);
  return true;
}

}  // namespace

absl::StatusOr<ImageU8> DecodeJpeg(std::span<const std::byte> file, const FileHeader& header) {
  Reader reader;
  const auto failed = [&reader] { return absl::InvalidArgumentError(absl::StrCat("JPEG: ", OneLine(reader.error))); };
  if (!ReadHeader(reader, file)) return failed();
  const int components = reader.jpeg.num_components;
  if (components == 4) return absl::InvalidArgumentError("JPEG: CMYK is not supported, convert to RGB");
  if (components != 1 && components != 3) {
    return absl::InvalidArgumentError(absl::StrCat("JPEG: got ", components, " components, expected 1 or 3"));
  }
  if (reader.jpeg.image_width != header.width || reader.jpeg.image_height != header.height) {
    return absl::InvalidArgumentError("JPEG: two frame headers of different sizes");
  }
  reader.jpeg.out_color_space = components == 1 ? JCS_GRAYSCALE : JCS_RGB;

  ImageU8 image;
  image.height = static_cast<int>(header.height);
  image.width = static_cast<int>(header.width);
  image.channels = components;
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * image.channels;
  image.pixels.resize(row_bytes * static_cast<std::size_t>(image.height));
  if (!ReadRows(reader, image.pixels.data(), row_bytes)) return failed();
  return image;
}

}  // namespace ckn
