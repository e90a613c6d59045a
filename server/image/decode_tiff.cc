#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/quote.h"
#include "server/base/status.h"
#include "server/image/codecs.h"

namespace ckn {
namespace {

// libtiff's view of the file in memory, and what it has to say about it.
struct Source {
  std::span<const std::byte> file;
  std::uint64_t at = 0;
  bool reading_pixels = false;
  char error[256] = "";

  [[nodiscard]] bool failed() const { return error[0] != '\0'; }
};

tmsize_t Read(thandle_t handle, void* out, tmsize_t size) {
  auto* const source = static_cast<Source*>(handle);
  if (size < 0 || source->at >= source->file.size()) return 0;
  const auto count =
      std::min(static_cast<std::size_t>(size), source->file.size() - static_cast<std::size_t>(source->at));
  std::memcpy(out, source->file.data() + source->at, count);
  source->at += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t Write(thandle_t, void*, tmsize_t) { return -1; }

toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  auto* const source = static_cast<Source*>(handle);
  source->at = offset + (whence == SEEK_CUR ? source->at : whence == SEEK_END ? source->file.size() : 0);
  return source->at;
}

int Close(thandle_t) { return 0; }

toff_t Size(thandle_t handle) { return static_cast<Source*>(handle)->file.size(); }

// Returns 1: nothing is printed. The first message counts, the others follow from it.
int OnError(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  auto* const source = static_cast<Source*>(user);
  if (!source->failed()) std::vsnprintf(source->error, sizeof(source->error), format, arguments);
  return 1;
}

// In front of the pixels a warning is about an entry that does not matter here; among them it means that some of the
// picture was made up.
int OnWarning(TIFF* tiff, void* user, const char* module, const char* format, va_list arguments) {
  if (!static_cast<Source*>(user)->reading_pixels) return 1;
  return OnError(tiff, user, module, format, arguments);
}

using TiffPointer = std::unique_ptr<TIFF, decltype(&TIFFClose)>;

TiffPointer Open(Source& source, const FileHeader& header) {
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                 &TIFFOpenOptionsFree);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), &OnError, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), &OnWarning, &source);
  // A strip of four samples of 16 bits, or the compressed bytes; the tables of the compressions are small.
  const std::int64_t pixels = std::max(header.width * header.height, header.buffer_pixels);
  const std::int64_t largest =
      std::max({std::int64_t{1} << 20, pixels * 8, static_cast<std::int64_t>(source.file.size())});
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), largest);
  // m: no memory mapping.
  return {
      TIFFClientOpenExt("image", "rm", &source, &Read, &Write, &Seek, &Close, &Size, nullptr, nullptr, options.get()),
      &TIFFClose};
}

std::uint16_t Tag(TIFF* tiff, std::uint32_t tag) {
  std::uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff, tag, &value);
  return value;
}

// Gray or colours of 16 bits, of which the upper 8 are kept; libtiff's own way to 8 bits would round them.
bool ReadSixteenBits(TIFF* tiff, ImageU8& image) {
  const bool white_is_zero = Tag(tiff, TIFFTAG_PHOTOMETRIC) == PHOTOMETRIC_MINISWHITE;
  const std::size_t samples = static_cast<std::size_t>(image.width) * image.channels;
  std::vector<std::uint16_t> row(samples);
  if (TIFFScanlineSize64(tiff) != samples * 2) return false;
  std::uint8_t* out = image.pixels.data();
  for (int y = 0; y < image.height; ++y) {
    if (TIFFReadScanline(tiff, row.data(), static_cast<std::uint32_t>(y), 0) < 0) return false;
    for (const std::uint16_t sample : row) {
      *out++ = static_cast<std::uint8_t>((white_is_zero ? 0xFFFF - sample : sample) >> 8);
    }
  }
  return true;
}

// Everything else through libtiff's conversion to 8-bit colours, strip by strip. It multiplies alpha in.
bool ReadRgba(TIFF* tiff, const FileHeader& header, Source& source, ImageU8& image) {
  char message[1024] = "";
  TIFFRGBAImage reader = {};
  const auto failed = [&] {
    // As much of it as there is room for.
    constexpr int kRoom = sizeof(source.error) - 1;
    if (!source.failed()) std::snprintf(source.error, sizeof(source.error), "%.*s", kRoom, message);
    return false;
  };
  if (TIFFRGBAImageOK(tiff, message) == 0) return failed();
  if (TIFFRGBAImageBegin(&reader, tiff, /*stop_on_error=*/1, message) == 0) return failed();
  const std::unique_ptr<TIFFRGBAImage, decltype(&TIFFRGBAImageEnd)> end(&reader, &TIFFRGBAImageEnd);
  // The picture as it is stored.
  reader.orientation = reader.req_orientation = ORIENTATION_TOPLEFT;
  const auto width = static_cast<std::uint32_t>(header.width);
  const std::int64_t strip_rows =
      header.buffer_pixels == 0 ? header.height : std::min(header.height, header.buffer_pixels / header.width);
  std::vector<std::uint32_t> strip(static_cast<std::size_t>(header.width * strip_rows));
  std::uint8_t* out = image.pixels.data();
  for (std::int64_t y = 0; y < header.height; y += strip_rows) {
    const std::int64_t rows = std::min(strip_rows, header.height - y);
    reader.row_offset = static_cast<int>(y);
    reader.col_offset = 0;
    if (TIFFRGBAImageGet(&reader, strip.data(), width, static_cast<std::uint32_t>(rows)) == 0) return false;
    for (std::int64_t i = 0; i < rows * header.width; ++i) {
      const std::uint32_t pixel = strip[static_cast<std::size_t>(i)];
      *out++ = static_cast<std::uint8_t>(TIFFGetR(pixel));
      if (image.channels == 1) continue;
      *out++ = static_cast<std::uint8_t>(TIFFGetG(pixel));
      *out++ = static_cast<std::uint8_t>(TIFFGetB(pixel));
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<ImageU8> DecodeTiff(std::span<const std::byte> file, const FileHeader& header) {
  Source source{.file = file};
  const auto failed = [&source] {
    return absl::InvalidArgumentError(
        absl::StrCat("TIFF: ", source.failed() ? OneLine(source.error) : "broken or cut off"));
  };
  const TiffPointer tiff = Open(source, header);
  if (tiff == nullptr) return failed();
  // The header was read here and by libtiff; a file on which the two differ is not one to trust.
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  if (width != header.width || height != header.height || TIFFIsTiled(tiff.get()) != 0) return failed();

  const std::uint16_t bits = Tag(tiff.get(), TIFFTAG_BITSPERSAMPLE);
  const std::uint16_t samples = Tag(tiff.get(), TIFFTAG_SAMPLESPERPIXEL);
  const std::uint16_t photometric = Tag(tiff.get(), TIFFTAG_PHOTOMETRIC);
  const bool gray = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE;
  if (bits == 16 && !(gray && samples == 1) && !(photometric == PHOTOMETRIC_RGB && samples >= 3)) {
    return absl::InvalidArgumentError(absl::StrCat("TIFF: got ", samples, " samples of 16 bits and photometric ",
                                                   "interpretation ", photometric, ", expected gray or RGB"));
  }
  ImageU8 image;
  image.height = static_cast<int>(height);
  image.width = static_cast<int>(width);
  image.channels = gray ? 1 : bits == 16 ? samples : 3;
  image.pixels.resize(static_cast<std::size_t>(header.width * header.height) * image.channels);
  source.reading_pixels = true;
  const bool read = bits == 16 ? ReadSixteenBits(tiff.get(), image) : ReadRgba(tiff.get(), header, source, image);
  if (!read || source.failed()) return failed();

  if (image.channels == 4) {
    std::uint16_t count = 0;
    std::uint16_t* kinds = nullptr;
    TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds);
    if (count == 1 && kinds[0] == EXTRASAMPLE_UNASSALPHA) {
      ComposeOverBlack(image);
    } else {
      DropAlpha(image);
    }
  }
  return image;
}

}  // namespace ckn
