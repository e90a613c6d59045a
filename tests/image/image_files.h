#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/image/image.h"

// Image files of exactly known content, written byte by byte where no encoder offers the variant.
namespace ckn::testing {

// An image of which no two pixels are equal, as long as it has at most 256 samples.
ImageU8 CountingImage(int height, int width, int channels);

std::string PngChunk(const std::string& type, const std::string& data);
// `rows` are packed samples without the filter byte; `chunks` stand between IHDR and IDAT.
std::string PngFile(int width, int height, int depth, int colour_type, const std::vector<std::string>& rows,
                    const std::string& chunks = "");
std::string PngFile(const ImageU8& image, const std::string& chunks = "");
std::string InterlacedPng(const ImageU8& image);

struct JpegOptions {
  bool cmyk = false;            // with 4 channels
  bool separate_scans = false;  // one scan a component
  bool progressive = false;
};
// `image` may have 4 channels for CMYK.
std::string JpegFile(const ImageU8& image, const JpegOptions& options = {});
// Inserts an APP1 segment with this EXIF block behind the start marker.
std::string WithExif(const std::string& jpeg, const std::string& exif);
// An EXIF block (a TIFF structure) that only holds the orientation.
std::string ExifBlock(int orientation, bool big_endian = false);

// A lossless WebP file; `exif`, if not empty, becomes its EXIF chunk.
std::string WebpFile(const ImageU8& image, const std::string& exif = "");

struct TiffOptions {
  int bits = 8;
  int photometric = 1;
  int samples = 1;
  int orientation = 0;    // 0: no tag
  int extra_sample = -1;  // -1: no tag
  int sample_format = 0;  // 0: no tag
  int planar = 1;
  int compression = 1;                      // 1: none, 5: LZW
  std::uint32_t rows_per_strip = 0;         // 0: all in one
  int strips = 1;                           // equal parts of the data
  std::vector<std::uint64_t> palette = {};  // all red, all green, all blue values, of 16 bits
  bool tiled = false;
  bool duplicate_width = false;
  bool big_endian = false;
};
std::string TiffFile(std::uint32_t width, std::uint32_t height, const std::string& data,
                     const TiffOptions& options = {});

// 24-bit BMP, or 32-bit with the masks of a version 4 header when the image has 4 channels (R, G, B, A).
std::string BmpFile(const ImageU8& image);

// Little- or big-endian numbers for hand-written headers.
std::string Number(std::uint64_t value, int bytes, bool big_endian = false);

}  // namespace ckn::testing
