#include "tests/image/image_files.h"

#include <zlib.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

// clang-format off
#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>
// clang-format on

#include <algorithm>

namespace ckn::testing {

ImageU8 CountingImage(int height, int width, int channels) {
  ImageU8 image{.height = height, .width = width, .channels = channels, .pixels = {}};
  for (int i = 0; i < height * width * channels; ++i) image.pixels.push_back(static_cast<std::uint8_t>(5 + 7 * i));
  return image;
}

std::string Number(std::uint64_t value, int bytes, bool big_endian) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  if (big_endian) std::reverse(out.begin(), out.end());
  return out;
}

std::string PngChunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return Number(data.size(), 4, true) + body + Number(crc, 4, true);
}

std::string PngFile(int width, int height, int depth, int colour_type, const std::vector<std::string>& rows,
                    const std::string& chunks) {
  std::string raw;
  for (const std::string& row : rows) raw += std::string(1, '\0') + row;
  uLongf size = compressBound(static_cast<uLong>(raw.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
           static_cast<uLong>(raw.size()));
  packed.resize(size);
  const std::string header = Number(static_cast<std::uint32_t>(width), 4, true) +
                             Number(static_cast<std::uint32_t>(height), 4, true) +
                             Number(static_cast<std::uint64_t>(depth), 1) +
                             Number(static_cast<std::uint64_t>(colour_type), 1) + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header) + chunks + PngChunk("IDAT", packed) + PngChunk("IEND", "");
}

std::string PngFile(const ImageU8& image, const std::string& chunks) {
  constexpr int kColourTypes[] = {0, 4, 2, 6};  // by channels
  std::vector<std::string> rows;
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * image.channels;
  for (int y = 0; y < image.height; ++y) {
    const auto first = image.pixels.begin() + static_cast<std::ptrdiff_t>(y * row_bytes);
    rows.emplace_back(first, first + static_cast<std::ptrdiff_t>(row_bytes));
  }
  return PngFile(image.width, image.height, 8, kColourTypes[image.channels - 1], rows, chunks);
}

std::string InterlacedPng(const ImageU8& image) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp p, png_bytep data, std::size_t size) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(data, data + size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
               image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_ADAM7,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::vector<std::uint8_t> pixels = image.pixels;
  std::vector<png_bytep> rows;
  rows.reserve(static_cast<std::size_t>(image.height));
  for (int y = 0; y < image.height; ++y) {
    rows.push_back(pixels.data() + static_cast<std::size_t>(y) * image.width * image.channels);
  }
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::string JpegFile(const ImageU8& image, const JpegOptions& options) {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_width = static_cast<JDIMENSION>(image.width);
  jpeg.image_height = static_cast<JDIMENSION>(image.height);
  jpeg.input_components = image.channels;
  jpeg.in_color_space = options.cmyk ? JCS_CMYK : image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 98, TRUE);
  // One chroma sample a pixel, so that colours stay close.
  for (int c = 0; c < jpeg.num_components; ++c) jpeg.comp_info[c].h_samp_factor = jpeg.comp_info[c].v_samp_factor = 1;
  if (options.progressive) jpeg_simple_progression(&jpeg);
  const jpeg_scan_info separate[3] = {
      {1, {0, 0, 0, 0}, 0, 63, 0, 0}, {1, {1, 0, 0, 0}, 0, 63, 0, 0}, {1, {2, 0, 0, 0}, 0, 63, 0, 0}};
  if (options.separate_scans) {
    jpeg.scan_info = separate;
    jpeg.num_scans = 3;
  }
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<std::uint8_t> pixels = image.pixels;
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = pixels.data() + static_cast<std::size_t>(jpeg.next_scanline) * image.width * image.channels;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string file(buffer, buffer + size);
  jpeg_destroy_compress(&jpeg);
  std::free(buffer);
  return file;
}

std::string WithExif(const std::string& jpeg, const std::string& exif) {
  const std::string body = std::string("Exif\0\0", 6) + exif;
  return jpeg.substr(0, 2) + "\xFF\xE1" + Number(body.size() + 2, 2, true) + body + jpeg.substr(2);
}

std::string ExifBlock(int orientation, bool big_endian) {
  const auto number = [big_endian](std::uint64_t value, int bytes) { return Number(value, bytes, big_endian); };
  return (big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) + number(1, 2) + number(274, 2) + number(3, 2) +
         number(1, 4) + number(static_cast<std::uint64_t>(orientation), 2) + number(0, 2) + number(0, 4);
}

std::string WebpFile(const ImageU8& image, const std::string& exif) {
  std::uint8_t* bytes = nullptr;
  const auto encode = image.channels == 4 ? &WebPEncodeLosslessRGBA : &WebPEncodeLosslessRGB;
  const std::size_t size = encode(image.pixels.data(), image.width, image.height, image.width * image.channels, &bytes);
  std::string file(bytes, bytes + size);
  WebPFree(bytes);
  if (exif.empty()) return file;
  const auto chunk = [](const std::string& type, const std::string& data) {
    return type + Number(data.size(), 4) + data + std::string(data.size() % 2, '\0');
  };
  const std::string extended = std::string("\x08\0\0\0", 4) + Number(static_cast<std::uint64_t>(image.width) - 1, 3) +
                               Number(static_cast<std::uint64_t>(image.height) - 1, 3);
  const std::string body = "WEBP" + chunk("VP8X", extended) + file.substr(12) + chunk("EXIF", exif);
  return "RIFF" + Number(body.size(), 4) + body;
}

std::string TiffFile(std::uint32_t width, std::uint32_t height, const std::string& data, const TiffOptions& options) {
  struct Entry {
    int tag;
    int type;  // 3 SHORT, 4 LONG
    std::vector<std::uint64_t> values;
  };
  const auto samples = static_cast<std::size_t>(options.samples);
  std::vector<Entry> entries = {{256, 4, {width}}};
  if (options.duplicate_width) entries.push_back({256, 4, {1}});
  entries.push_back({257, 4, {height}});
  entries.push_back({258, 3, std::vector<std::uint64_t>(samples, static_cast<std::uint64_t>(options.bits))});
  entries.push_back({259, 3, {static_cast<std::uint64_t>(options.compression)}});
  entries.push_back({262, 3, {static_cast<std::uint64_t>(options.photometric)}});
  const auto strips = static_cast<std::size_t>(options.strips);
  const std::size_t strip_bytes = data.size() / strips;
  entries.push_back({273, 4, std::vector<std::uint64_t>(strips)});  // set below
  if (options.orientation > 0) entries.push_back({274, 3, {static_cast<std::uint64_t>(options.orientation)}});
  entries.push_back({277, 3, {samples}});
  entries.push_back({278, 4, {options.rows_per_strip > 0 ? options.rows_per_strip : height}});
  entries.push_back({279, 4, std::vector<std::uint64_t>(strips, strip_bytes)});
  entries.push_back({284, 3, {static_cast<std::uint64_t>(options.planar)}});
  if (!options.palette.empty()) entries.push_back({320, 3, options.palette});
  if (options.tiled) {
    entries.push_back({322, 4, {16}});
    entries.push_back({323, 4, {16}});
  }
  if (options.extra_sample >= 0) entries.push_back({338, 3, {static_cast<std::uint64_t>(options.extra_sample)}});
  if (options.sample_format > 0) {
    entries.push_back({339, 3, std::vector<std::uint64_t>(samples, static_cast<std::uint64_t>(options.sample_format))});
  }

  const auto number = [&options](std::uint64_t value, int bytes) { return Number(value, bytes, options.big_endian); };
  const auto size_of = [](const Entry& entry) { return (entry.type == 3 ? 2 : 4) * entry.values.size(); };
  const std::size_t after_directory = 8 + 2 + 12 * entries.size() + 4;
  std::size_t data_offset = after_directory;
  for (const Entry& entry : entries) data_offset += size_of(entry) > 4 ? size_of(entry) : 0;

  std::string file = (options.big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) + number(entries.size(), 2);
  std::string outside;
  for (Entry& entry : entries) {
    if (entry.tag == 273) {
      for (std::size_t i = 0; i < strips; ++i) entry.values[i] = data_offset + i * strip_bytes;
    }
    std::string values;
    for (const std::uint64_t value : entry.values) values += number(value, entry.type == 3 ? 2 : 4);
    file += number(static_cast<std::uint64_t>(entry.tag), 2) + number(static_cast<std::uint64_t>(entry.type), 2) +
            number(entry.values.size(), 4);
    if (values.size() > 4) {
      file += number(after_directory + outside.size(), 4);
      outside += values;
    } else {
      values.resize(4, '\0');
      file += values;
    }
  }
  return file + number(0, 4) + outside + data;
}

std::string BmpFile(const ImageU8& image) {
  std::string rows;
  for (int y = image.height - 1; y >= 0; --y) {
    std::string row;
    for (int x = 0; x < image.width; ++x) {
      const std::uint8_t* pixel =
          image.pixels.data() + (static_cast<std::size_t>(y) * image.width + x) * image.channels;
      for (const int c : {2, 1, 0}) row.push_back(static_cast<char>(pixel[c]));
      if (image.channels == 4) row.push_back(static_cast<char>(pixel[3]));
    }
    row.resize((row.size() + 3) / 4 * 4, '\0');
    rows += row;
  }
  const bool alpha = image.channels == 4;
  const std::uint64_t header_size = alpha ? 108 : 40;
  std::string info = Number(header_size, 4) + Number(static_cast<std::uint64_t>(image.width), 4) +
                     Number(static_cast<std::uint64_t>(image.height), 4) + Number(1, 2) + Number(alpha ? 32 : 24, 2) +
                     Number(alpha ? 3 : 0, 4) + Number(rows.size(), 4) + std::string(16, '\0');
  if (alpha) info += Number(0xFF0000, 4) + Number(0xFF00, 4) + Number(0xFF, 4) + Number(0xFF000000, 4);
  info.resize(header_size, '\0');
  return "BM" + Number(14 + info.size() + rows.size(), 4) + Number(0, 4) + Number(14 + info.size(), 4) + info + rows;
}

}  // namespace ckn::testing
