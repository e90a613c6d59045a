#include "server/image/decode.h"

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/image/encode_png.h"
#include "server/image/preprocess.h"
#include "tests/image/image_files.h"

namespace ckn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using namespace ckn::testing;  // NOLINT: the file builders

absl::StatusOr<ImageU8> DecodeFile(const std::string& file, const DecodeLimits& limits = {}) {
  return Decode(std::as_bytes(std::span<const char>(file)), limits);
}

std::string Error(const std::string& file, const DecodeLimits& limits = {}) {
  const absl::StatusOr<ImageU8> image = DecodeFile(file, limits);
  if (image.ok()) return "decoded";
  EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument) << image.status();
  return std::string(image.status().message());
}

// Samples of a file that must decode to this size.
std::vector<int> Samples(const std::string& file, int height, int width, int channels) {
  const absl::StatusOr<ImageU8> image = DecodeFile(file);
  if (!image.ok()) {
    ADD_FAILURE() << image.status();
    return {};
  }
  EXPECT_EQ(image->height, height);
  EXPECT_EQ(image->width, width);
  EXPECT_EQ(image->channels, channels);
  return {image->pixels.begin(), image->pixels.end()};
}

std::string Bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out.push_back(static_cast<char>(value));
  return out;
}

// One small colour file in each format.
std::vector<std::pair<std::string, std::string>> OneOfEach() {
  const ImageU8 colour = CountingImage(5, 7, 3);
  return {{"PNG", PngFile(colour)},
          {"JPEG", JpegFile(colour)},
          {"WebP", WebpFile(colour)},
          {"BMP", BmpFile(colour)},
          {"TIFF",
           TiffFile(7, 5, std::string(colour.pixels.begin(), colour.pixels.end()), {.photometric = 2, .samples = 3})},
          {"PNM", "P6\n7 5\n255\n" + std::string(colour.pixels.begin(), colour.pixels.end())}};
}

TEST(DecodeTest, LosslessFormatsGiveTheExactPixelsInRgbOrder) {
  const ImageU8 colour = CountingImage(5, 7, 3);
  for (const auto& [name, file] : OneOfEach()) {
    if (name == "JPEG") continue;
    SCOPED_TRACE(name);
    EXPECT_THAT(Samples(file, 5, 7, 3), ElementsAreArray(colour.pixels));
  }
}

TEST(DecodeTest, JpegGivesNearlyThePixelsInRgbOrder) {
  ImageU8 colour{.height = 16, .width = 16, .channels = 3, .pixels = {}};
  for (int i = 0; i < 256; ++i) colour.pixels.insert(colour.pixels.end(), {200, 100, 50});
  const std::vector<int> samples = Samples(JpegFile(colour), 16, 16, 3);
  for (std::size_t i = 0; i < samples.size(); ++i) EXPECT_NEAR(samples[i], colour.pixels[i], 3);
  EXPECT_THAT(Samples(JpegFile(colour, {.progressive = true}), 16, 16, 3), ElementsAreArray(samples));
  EXPECT_THAT(Samples(JpegFile(colour, {.separate_scans = true}), 16, 16, 3), ElementsAreArray(samples));
}

TEST(DecodeTest, GrayStaysOneChannel) {
  const ImageU8 gray = CountingImage(5, 7, 1);
  const std::string bytes(gray.pixels.begin(), gray.pixels.end());
  EXPECT_THAT(Samples(PngFile(gray), 5, 7, 1), ElementsAreArray(gray.pixels));
  EXPECT_THAT(Samples(TiffFile(7, 5, bytes), 5, 7, 1), ElementsAreArray(gray.pixels));
  EXPECT_THAT(Samples(TiffFile(7, 5, bytes, {.big_endian = true}), 5, 7, 1), ElementsAreArray(gray.pixels));
  EXPECT_THAT(Samples("P5 7 5 255\n" + bytes, 5, 7, 1), ElementsAreArray(gray.pixels));
  EXPECT_EQ(Samples(JpegFile(gray), 5, 7, 1).size(), 35U);
}

TEST(DecodeTest, EncodePngRoundTrips) {
  for (const int channels : {1, 3}) {
    const ImageU8 image = CountingImage(4, 9, channels);
    const absl::StatusOr<std::string> file = EncodePng(image);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT(Samples(*file, 4, 9, channels), ElementsAreArray(image.pixels));
  }
}

TEST(DecodeTest, SixteenBitSamplesKeepTheirUpperByte) {
  EXPECT_THAT(Samples(PngFile(2, 1, 16, 0, {Bytes({0x12, 0xFF, 0xFE, 0x80})}), 1, 2, 1), ElementsAre(0x12, 0xFE));
  EXPECT_THAT(Samples(PngFile(1, 1, 16, 2, {Bytes({0x12, 0xFF, 0xFE, 0x80, 0x01, 0x80})}), 1, 1, 3),
              ElementsAre(0x12, 0xFE, 0x01));
  EXPECT_THAT(Samples("P5\n2 1\n65535\n" + Bytes({0x12, 0xFF, 0xFE, 0x80}), 1, 2, 1), ElementsAre(0x12, 0xFE));
  EXPECT_THAT(Samples(TiffFile(2, 1, Bytes({0xFF, 0x12, 0x80, 0xFE}), {.bits = 16}), 1, 2, 1), ElementsAre(0x12, 0xFE));
  EXPECT_THAT(Samples(TiffFile(1, 1, Bytes({0x12, 0xFF, 0xFE, 0x80, 0x01, 0x80}),
                               {.bits = 16, .photometric = 2, .samples = 3, .big_endian = true}),
                      1, 1, 3),
              ElementsAre(0x12, 0xFE, 0x01));
}

TEST(DecodeTest, AlphaIsComposedOverBlack) {
  // 200 * 128 / 255 = 100.4, 100 * 128 / 255 = 50.2, 50 * 128 / 255 = 25.1.
  const ImageU8 rgba{.height = 1, .width = 1, .channels = 4, .pixels = {200, 100, 50, 128}};
  EXPECT_THAT(Samples(PngFile(rgba), 1, 1, 3), ElementsAre(100, 50, 25));
  EXPECT_THAT(Samples(WebpFile(rgba), 1, 1, 3), ElementsAre(100, 50, 25));
  EXPECT_THAT(Samples(BmpFile(rgba), 1, 1, 3), ElementsAre(100, 50, 25));
  EXPECT_THAT(Samples(TiffFile(1, 1, Bytes({0, 200, 0, 100, 0, 50, 0, 128}),
                               {.bits = 16, .photometric = 2, .samples = 4, .extra_sample = 2}),
                      1, 1, 3),
              ElementsAre(100, 50, 25));
  EXPECT_THAT(
      Samples(TiffFile(1, 1, Bytes({200, 100, 50, 128}), {.photometric = 2, .samples = 4, .extra_sample = 2}), 1, 1, 3),
      ElementsAre(100, 50, 25));
  // Transparent black, opaque, half.
  const ImageU8 gray_alpha{.height = 1, .width = 3, .channels = 2, .pixels = {200, 0, 200, 255, 200, 128}};
  EXPECT_THAT(Samples(PngFile(gray_alpha), 1, 3, 1), ElementsAre(0, 200, 100));
  EXPECT_THAT(Samples(PngFile(1, 1, 16, 4, {Bytes({200, 9, 128, 9})}), 1, 1, 1), ElementsAre(100));
}

TEST(DecodeTest, PremultipliedTiffColoursAreNotMultipliedAgain) {
  for (const int bits : {8, 16}) {
    const std::string data = bits == 8 ? Bytes({100, 50, 25, 128}) : Bytes({0, 100, 0, 50, 0, 25, 0, 128});
    const TiffOptions associated = {.bits = bits, .photometric = 2, .samples = 4, .extra_sample = 1};
    EXPECT_THAT(Samples(TiffFile(1, 1, data, associated), 1, 1, 3), ElementsAre(100, 50, 25)) << bits;
  }
}

TEST(DecodeTest, FourthByteOfBmpWithoutAlphaMaskMeansNothing) {
  ImageU8 rgba{.height = 1, .width = 1, .channels = 4, .pixels = {200, 100, 50, 0}};
  std::string file = BmpFile(rgba);
  file.replace(14 + 52, 4, Number(0, 4));  // no alpha mask
  EXPECT_THAT(Samples(file, 1, 1, 3), ElementsAre(200, 100, 50));
}

TEST(DecodeTest, BmpPalettes) {
  // 8 bits, three colours, one row of three pixels padded to four bytes.
  const std::string palette = Bytes({255, 0, 0, 0, 0, 255, 0, 0, 0, 0, 255, 0});  // B, G, R, 0
  const std::string info = Number(40, 4) + Number(3, 4) + Number(1, 4) + Number(1, 2) + Number(8, 2) +
                           std::string(16, '\0') + Number(3, 4) + Number(0, 4);
  const std::string head = "BM" + Number(0, 8) + Number(66, 4) + info;
  EXPECT_THAT(Samples(head + palette + Bytes({2, 1, 0, 0}), 1, 3, 3), ElementsAre(255, 0, 0, 0, 255, 0, 0, 0, 255));
  EXPECT_THAT(Error(head + palette), HasSubstr("expected 1 rows of 4 bytes from byte 66 on"));
  std::string many = head + palette + Bytes({2, 1, 0, 0});
  many.replace(46, 4, Number(257, 4));
  EXPECT_THAT(Error(many), HasSubstr("the palette of 257 colours is too large or cut off"));
  many.replace(46, 4, Number(0, 4));
  EXPECT_THAT(Error(many), HasSubstr("the palette of 256 colours is too large or cut off"));
}

// A BMP file with an information header of 40 bytes; `extra` is masks or palette.
std::string BmpOf(int width, int height, int depth, int compression, int colours, const std::string& extra,
                  const std::string& data) {
  const auto number = [](int value, int bytes) { return Number(static_cast<std::uint32_t>(value), bytes); };
  return "BM" + Number(0, 8) + Number(54 + extra.size(), 4) + Number(40, 4) + number(width, 4) + number(height, 4) +
         Number(1, 2) + number(depth, 2) + number(compression, 4) + std::string(12, '\0') + number(colours, 4) +
         Number(0, 4) + extra + data;
}

TEST(DecodeTest, BmpRowsFromTheTopAndSmallPalettes) {
  const std::string gray = Bytes({10, 10, 10, 0, 200, 200, 200, 0});
  EXPECT_THAT(Samples(BmpOf(9, 2, 1, 0, 2, gray, Bytes({0xFF, 0x80, 0, 0, 0xA0, 0, 0, 0})), 2, 9, 1),
              ElementsAre(200, 10, 200, 10, 10, 10, 10, 10, 10, 200, 200, 200, 200, 200, 200, 200, 200, 200));
  EXPECT_THAT(Samples(BmpOf(3, -2, 4, 0, 2, gray, Bytes({0x01, 0x10, 0, 0, 0x10, 0, 0, 0})), 2, 3, 1),
              ElementsAre(10, 200, 200, 200, 10, 10));
  EXPECT_THAT(Error(BmpOf(1, 1, 4, 0, 2, gray, Bytes({0x20, 0, 0, 0}))), HasSubstr("got colour 2 of a palette of 2"));
}

TEST(DecodeTest, BmpMasksAreScaledToTheFullRange) {
  // 5 bits a colour by default, 5, 6 and 5 or 10 bits by masks.
  EXPECT_THAT(Samples(BmpOf(2, 1, 16, 0, 0, "", Bytes({0x00, 0x7C, 0x10, 0x02})), 1, 2, 3),
              ElementsAre(255, 0, 0, 0, 132, 132));
  EXPECT_THAT(
      Samples(BmpOf(1, 1, 16, 3, 0, Number(0xF800, 4) + Number(0x7E0, 4) + Number(0x1F, 4), Bytes({0xE0, 0x07, 0, 0})),
              1, 1, 3),
      ElementsAre(0, 255, 0));
  EXPECT_THAT(Samples(BmpOf(1, 1, 32, 3, 0, Number(0x3FF00000, 4) + Number(0xFFC00, 4) + Number(0x3FF, 4),
                            Number(1023U << 20 | 512U << 10, 4)),
                      1, 1, 3),
              ElementsAre(255, 128, 0));
  EXPECT_THAT(Samples(BmpOf(1, 1, 32, 0, 0, "", Bytes({50, 100, 200, 9})), 1, 1, 3), ElementsAre(200, 100, 50));
  EXPECT_THAT(Error(BmpOf(1, 1, 16, 3, 0, Number(0xF00F, 4) + Number(0x7E0, 4) + Number(0x1F, 4), Number(0, 4))),
              HasSubstr("got mask f00f, expected bits in a row"));
  EXPECT_THAT(Error(BmpOf(1, 1, 24, 3, 0, std::string(12, '\0'), Number(0, 4))), HasSubstr("does not go with 24 bits"));
}

TEST(DecodeTest, BmpRunLengths) {
  const std::string palette = Bytes({0, 0, 0, 0, 100, 100, 100, 0, 200, 200, 200, 0});
  // From the bottom: a run and a pixel; three single pixels with a filling byte; one pixel after a move.
  const std::string rows = Bytes({2, 1, 1, 2, 0, 0, 0, 3, 2, 1, 2, 0, 0, 0, 0, 2, 2, 0, 1, 1, 0, 1});
  const std::string file = BmpOf(3, 3, 8, 1, 3, palette, rows);
  EXPECT_THAT(Samples(file, 3, 3, 1), ElementsAre(0, 0, 100, 200, 100, 200, 100, 100, 200));
  for (std::size_t length = 0; length < file.size(); ++length) EXPECT_NE(Error(file.substr(0, length)), "decoded");
  EXPECT_THAT(Samples(BmpOf(5, 2, 4, 2, 3, palette, Bytes({5, 0x12, 0, 0, 0, 5, 0x21, 0x21, 0x20, 0, 0, 1})), 2, 5, 1),
              ElementsAre(200, 100, 200, 100, 200, 100, 200, 100, 200, 100));
  EXPECT_THAT(Error(BmpOf(3, 1, 8, 1, 3, palette, Bytes({4, 1, 0, 1}))),
              HasSubstr("pixels up to 4 in row 0, expected 1 rows of 3"));
  EXPECT_THAT(Error(BmpOf(3, 1, 8, 1, 3, palette, Bytes({3, 1, 0, 0, 1, 1, 0, 1}))), HasSubstr("in row 1"));
  EXPECT_THAT(Error(BmpOf(3, 1, 8, 1, 3, palette, Bytes({3, 7, 0, 1}))), HasSubstr("got colour 7"));
  EXPECT_THAT(Error(BmpOf(3, -1, 8, 1, 3, palette, Bytes({3, 1, 0, 1}))), HasSubstr("cannot be stored from the top"));
}

// Codes of 9 bits: a reset, one code a byte, the end. Enough for up to 253 bytes.
std::string Lzw(const std::vector<std::uint8_t>& bytes) {
  std::vector<unsigned> codes = {256};
  codes.insert(codes.end(), bytes.begin(), bytes.end());
  codes.push_back(257);
  std::string out((codes.size() * 9 + 7) / 8, '\0');
  for (std::size_t bit = 0; bit < codes.size() * 9; ++bit) {
    const unsigned value = codes[bit / 9] >> (8 - bit % 9) & 1;
    out[bit / 8] = static_cast<char>(static_cast<unsigned char>(out[bit / 8]) | value << (7 - bit % 8));
  }
  return out;
}

std::string Deflate(const std::vector<std::uint8_t>& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  compress(reinterpret_cast<Bytef*>(out.data()), &size, bytes.data(), bytes.size());
  out.resize(size);
  return out;
}

TEST(DecodeTest, CompressedTiffs) {
  const ImageU8 colour = CountingImage(5, 7, 3);
  const std::string plain(colour.pixels.begin(), colour.pixels.end());
  const std::string pack_bits = static_cast<char>(plain.size() - 1) + plain;  // one run of single bytes
  for (const auto& [compression, data] : std::vector<std::pair<int, std::string>>{
           {5, Lzw(colour.pixels)}, {8, Deflate(colour.pixels)}, {32946, Deflate(colour.pixels)}, {32773, pack_bits}}) {
    SCOPED_TRACE(compression);
    const TiffOptions options = {.photometric = 2, .samples = 3, .compression = compression};
    EXPECT_THAT(Samples(TiffFile(7, 5, data, options), 5, 7, 3), ElementsAreArray(colour.pixels));
    // Data that ends early, in files that are whole otherwise.
    for (std::size_t length = 0; length + 6 < data.size(); ++length) {
      EXPECT_NE(Error(TiffFile(7, 5, data.substr(0, length), options)), "decoded") << length;
    }
  }
  for (const int compression : {6, 34887, 50000, 50001}) {
    EXPECT_THAT(Error(TiffFile(7, 5, plain, {.photometric = 2, .samples = 3, .compression = compression})),
                HasSubstr("got compression " + std::to_string(compression)));
  }
}

TEST(DecodeTest, JpegInTiffIsAsStrictAsJpeg) {
  const ImageU8 gray = CountingImage(16, 16, 1);
  const std::string jpeg = JpegFile(gray);
  const TiffOptions options = {.compression = 7};
  EXPECT_EQ(Samples(TiffFile(16, 16, jpeg, options), 16, 16, 1), Samples(jpeg, 16, 16, 1));
  for (std::size_t length = 0; length + 2 < jpeg.size(); ++length) {
    EXPECT_NE(Error(TiffFile(16, 16, jpeg.substr(0, length), options)), "decoded") << length;
  }
}

TEST(DecodeTest, TiffStripsAndPalettes) {
  const ImageU8 colour = CountingImage(6, 5, 3);
  const std::string plain(colour.pixels.begin(), colour.pixels.end());
  const TiffOptions halves = {.photometric = 2, .samples = 3, .rows_per_strip = 3, .strips = 2};
  EXPECT_THAT(Samples(TiffFile(5, 6, plain, halves), 6, 5, 3), ElementsAreArray(colour.pixels));
  const ImageU8 gray = CountingImage(4, 3, 1);
  std::string sixteen_bits;
  for (const std::uint8_t sample : gray.pixels) sixteen_bits += Number(sample * 256U + 200, 2);
  EXPECT_THAT(Samples(TiffFile(3, 4, sixteen_bits, {.bits = 16, .rows_per_strip = 2, .strips = 2}), 4, 3, 1),
              ElementsAreArray(gray.pixels));
  EXPECT_THAT(Samples(TiffFile(1, 1, Bytes({0xFF, 0x12}), {.bits = 16, .photometric = 0}), 1, 1, 1), ElementsAre(0xED));
  std::vector<std::uint64_t> palette(std::size_t{3} * 256);
  palette[7] = 200 * 256;
  palette[256 + 7] = 100 * 256;
  palette[512 + 7] = 50 * 256;
  EXPECT_THAT(Samples(TiffFile(2, 1, Bytes({7, 0}), {.photometric = 3, .palette = palette}), 1, 2, 3),
              ElementsAre(200, 100, 50, 0, 0, 0));
  EXPECT_THAT(Error(TiffFile(2, 1, Bytes({7, 0}), {.photometric = 3})),
              HasSubstr("got a palette of 0 numbers, expected 768"));
}

TEST(DecodeTest, TransparentColoursOfPngBecomeBlack) {
  EXPECT_THAT(Samples(PngFile(2, 1, 8, 0, {Bytes({200, 100})}, PngChunk("tRNS", Bytes({0, 200}))), 1, 2, 1),
              ElementsAre(0, 100));
  EXPECT_THAT(
      Samples(PngFile(2, 1, 8, 2, {Bytes({200, 100, 50, 1, 2, 3})}, PngChunk("tRNS", Bytes({0, 200, 0, 100, 0, 50}))),
              1, 2, 3),
      ElementsAre(0, 0, 0, 1, 2, 3));
}

TEST(DecodeTest, PalettesBecomeColours) {
  const std::string palette = PngChunk("PLTE", Bytes({255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 8, 7}));
  const std::string row = Bytes({0b00011011});
  EXPECT_THAT(Samples(PngFile(4, 1, 2, 3, {row}, palette), 1, 4, 3),
              ElementsAre(255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 8, 7));
  EXPECT_THAT(Samples(PngFile(4, 1, 2, 3, {row}, palette + PngChunk("tRNS", Bytes({128, 0}))), 1, 4, 3),
              ElementsAre(128, 0, 0, 0, 0, 0, 0, 0, 255, 9, 8, 7));
}

TEST(DecodeTest, FewerThanEightBitsAreScaledToTheFullRange) {
  EXPECT_THAT(Samples(PngFile(4, 1, 1, 0, {Bytes({0b10100000})}), 1, 4, 1), ElementsAre(255, 0, 255, 0));
  EXPECT_THAT(Samples(PngFile(4, 1, 2, 0, {Bytes({0b00011011})}), 1, 4, 1), ElementsAre(0, 85, 170, 255));
  EXPECT_THAT(Samples(TiffFile(4, 1, Bytes({0b10100000}), {.bits = 1}), 1, 4, 1), ElementsAre(255, 0, 255, 0));
  EXPECT_THAT(Samples(TiffFile(3, 1, Bytes({0, 100, 255}), {.photometric = 0}), 1, 3, 1), ElementsAre(255, 155, 0));
}

TEST(DecodeTest, PnmKindsAndRanges) {
  EXPECT_THAT(Samples("P1 3 1\n010", 1, 3, 1), ElementsAre(255, 0, 255));
  EXPECT_THAT(Samples("P4\n10 2\n" + Bytes({0x40, 0x40, 0xFF, 0xC0}), 2, 10, 1),
              ElementsAre(255, 0, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(Samples("P2\n# a comment\n3 1 # another\n15\n0 7 15\n", 1, 3, 1), ElementsAre(0, 119, 255));
  EXPECT_THAT(Samples("P3\n1 1\n255\n200 100 50", 1, 1, 3), ElementsAre(200, 100, 50));
  EXPECT_THAT(Samples("P5\n3 1\n15\n" + Bytes({0, 7, 15}), 1, 3, 1), ElementsAre(0, 119, 255));
  EXPECT_THAT(Samples("P5\n2 1\n1000\n" + Bytes({1, 0xF4, 3, 0xE8}), 1, 2, 1), ElementsAre(128, 255));
  EXPECT_THAT(Error("P2\n1 1\n15\n16\n"), HasSubstr("sample 0 is 16, expected at most 15"));
  EXPECT_THAT(Error("P5\n1 1\n65536\nxx"), HasSubstr("got maximal value 65536"));
}

TEST(DecodeTest, ChunksOfPngThatAreNotPixelsAreNotRead) {
  const ImageU8 image = CountingImage(2, 3, 1);
  const std::string plain = PngFile(image);
  for (const char* const type : {"eXIf", "iCCP", "zTXt", "gAMA", "sBIT", "sPLT", "tIME", "abCd"}) {
    const auto decoded = DecodeFile(PngFile(image, PngChunk(type, "nonsense")));
    ASSERT_TRUE(decoded.ok()) << type << ": " << decoded.status();
    EXPECT_EQ(decoded->pixels, image.pixels) << type;
  }
  // One that claims to take 1 GiB: behind the header's 33 bytes.
  EXPECT_THAT(Error(plain.substr(0, 33) + std::string("\x40\0\0\0eXIf", 8) + plain.substr(33)), HasSubstr("cut off"));
}

TEST(DecodeTest, InterlacedPngEqualsThePlainOne) {
  const ImageU8 image = CountingImage(11, 13, 1);
  EXPECT_THAT(Samples(InterlacedPng(image), 11, 13, 1), ElementsAreArray(image.pixels));
}

// What a camera stores for this upright picture: the orientation tells on which side of it the stored first row and
// first column lie.
ImageU8 Stored(const ImageU8& upright, int orientation) {
  ImageU8 stored = upright;
  if (orientation >= 5) std::swap(stored.height, stored.width);
  for (int row = 0; row < stored.height; ++row) {
    for (int column = 0; column < stored.width; ++column) {
      const int last_y = upright.height - 1;
      const int last_x = upright.width - 1;
      int y = row;
      int x = column;
      switch (orientation) {
        case 2:
          x = last_x - column;
          break;  // first row at the top, first column on the right
        case 3:
          y = last_y - row, x = last_x - column;
          break;  // bottom, right
        case 4:
          y = last_y - row;
          break;  // bottom, left
        case 5:
          y = column, x = row;
          break;  // left, top
        case 6:
          y = column, x = last_x - row;
          break;  // right, top
        case 7:
          y = last_y - column, x = last_x - row;
          break;  // right, bottom
        case 8:
          y = last_y - column, x = row;
          break;  // left, bottom
        default:
          break;
      }
      for (int c = 0; c < upright.channels; ++c) {
        stored.pixels[(static_cast<std::size_t>(row) * stored.width + column) * upright.channels + c] =
            upright.pixels[(static_cast<std::size_t>(y) * upright.width + x) * upright.channels + c];
      }
    }
  }
  return stored;
}

class OrientationTest : public ::testing::TestWithParam<int> {};

TEST_P(OrientationTest, EveryStoredFormGivesTheUprightPicture) {
  for (const int channels : {1, 3}) {
    const ImageU8 upright = CountingImage(3, 5, channels);
    const ImageU8 stored = Stored(upright, GetParam());
    for (const bool big_endian : {false, true}) {
      const std::string chunk = PngChunk("eXIf", ExifBlock(GetParam(), big_endian));
      EXPECT_THAT(Samples(PngFile(stored, chunk), 3, 5, channels), ElementsAreArray(upright.pixels));
    }
    const std::string bytes(stored.pixels.begin(), stored.pixels.end());
    const TiffOptions tiff = {.photometric = channels == 1 ? 1 : 2, .samples = channels, .orientation = GetParam()};
    EXPECT_THAT(Samples(TiffFile(static_cast<std::uint32_t>(stored.width), static_cast<std::uint32_t>(stored.height),
                                 bytes, tiff),
                        3, 5, channels),
                ElementsAreArray(upright.pixels));
    if (channels == 3) {
      EXPECT_THAT(Samples(WebpFile(stored, ExifBlock(GetParam())), 3, 5, 3), ElementsAreArray(upright.pixels));
    }
  }
}

TEST_P(OrientationTest, JpegIsTurnedUpright) {
  // Flat blocks of 8 x 8 survive the compression in every orientation.
  ImageU8 upright{.height = 16, .width = 24, .channels = 1, .pixels = std::vector<std::uint8_t>(16 * 24)};
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 24; ++x)
      upright.pixels[static_cast<std::size_t>(y) * 24 + x] = static_cast<std::uint8_t>(20 + 40 * (y / 8 * 3 + x / 8));
  }
  const std::string plain = JpegFile(Stored(upright, GetParam()));
  const std::vector<int> samples = Samples(WithExif(plain, ExifBlock(GetParam())), 16, 24, 1);
  ASSERT_EQ(samples.size(), upright.pixels.size());
  for (std::size_t i = 0; i < samples.size(); ++i) ASSERT_NEAR(samples[i], upright.pixels[i], 2) << "sample " << i;
}

INSTANTIATE_TEST_SUITE_P(AllEight, OrientationTest, ::testing::Range(1, 9));

TEST(DecodeTest, UnusableExifCountsAsUpright) {
  const ImageU8 gray = CountingImage(8, 16, 1);
  const std::string jpeg = JpegFile(gray);
  const std::vector<int> plain = Samples(jpeg, 8, 16, 1);
  const std::string block = ExifBlock(6);
  std::vector<std::string> blocks = {ExifBlock(0), ExifBlock(9), "", "garbage", std::string(40, '\0')};
  for (std::size_t length = 0; length < 18; ++length) blocks.push_back(block.substr(0, length));
  for (const std::string& exif : blocks) EXPECT_EQ(Samples(WithExif(jpeg, exif), 8, 16, 1), plain);
}

TEST(DecodeTest, EveryTruncationIsRejected) {
  for (const auto& [name, file] : OneOfEach()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(DecodeFile(file).ok());
    for (std::size_t length = 0; length < file.size(); ++length) {
      EXPECT_NE(Error(file.substr(0, length)), "decoded") << length << " of " << file.size() << " bytes";
    }
  }
  const std::string progressive = JpegFile(CountingImage(16, 16, 3), {.progressive = true});
  for (std::size_t length = 0; length < progressive.size(); ++length) {
    EXPECT_NE(Error(progressive.substr(0, length)), "decoded") << length << " of " << progressive.size() << " bytes";
  }
}

TEST(DecodeTest, BytesAfterTheEndDoNotMatter) {
  for (const auto& [name, file] : OneOfEach()) {
    const absl::StatusOr<ImageU8> plain = DecodeFile(file);
    const absl::StatusOr<ImageU8> longer = DecodeFile(file + "trailing bytes");
    ASSERT_TRUE(plain.ok() && longer.ok()) << name << ": " << longer.status();
    EXPECT_EQ(plain->pixels, longer->pixels) << name;
  }
}

TEST(DecodeTest, JpegWithDataMissingInTheMiddleIsRejected) {
  ImageU8 noise{.height = 64, .width = 64, .channels = 3, .pixels = {}};
  std::mt19937 random(1);
  for (int i = 0; i < 64 * 64 * 3; ++i) noise.pixels.push_back(static_cast<std::uint8_t>(random()));
  const std::string file = JpegFile(noise);
  ASSERT_TRUE(DecodeFile(file).ok());
  const std::string cut = file.substr(0, file.size() / 2) + file.substr(file.size() - 2);
  EXPECT_THAT(Error(cut), HasSubstr("JPEG: "));
}

TEST(DecodeTest, EveryDamagedByteOfPngIsFound) {
  const std::string file = PngFile(CountingImage(5, 7, 3));
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_NE(Error(damaged), "decoded") << "byte " << i;
  }
}

TEST(DecodeTest, DamagedFilesNeverCrashNorExceedTheLimit) {
  std::mt19937 random(7);
  const DecodeLimits limits = {.max_pixels = 1000};
  for (const auto& [name, file] : OneOfEach()) {
    for (int i = 0; i < 2000; ++i) {
      std::string damaged = file;
      for (unsigned k = 0; k < 1 + i % 4U; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
      if (i % 5 == 0) damaged.resize(random() % damaged.size());
      const absl::StatusOr<ImageU8> image = DecodeFile(damaged, limits);
      if (!image.ok()) continue;
      EXPECT_LE(std::int64_t{image->height} * image->width, limits.max_pixels) << name;
      EXPECT_EQ(image->pixels.size(), static_cast<std::size_t>(image->height) * image->width * image->channels);
    }
  }
}

TEST(DecodeTest, RandomBytesAreRejected) {
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_NE(Error(bytes), "decoded");
  }
}

TEST(DecodeTest, EmptyAndUnknownFormatsAreRejected) {
  EXPECT_EQ(Error(""), "the image is empty");
  for (const std::string& file :
       {std::string("GIF89a\x01\x00\x01\x00", 10), std::string("\x76\x2f\x31\x01", 4), std::string("#?RADIANCE\n"),
        std::string("\x59\xa6\x6a\x95", 4), std::string("\0\0\0\x0cjP  \r\n\x87\n", 12), std::string("P7\nWIDTH 1\n"),
        std::string("Pf\n1 1\n-1.0\n"), std::string("<svg/>"), std::string("P"), std::string("\0", 1)}) {
    EXPECT_THAT(Error(file), HasSubstr("unknown image format, expected PNG, JPEG, WebP, BMP, TIFF or PNM"));
  }
}

TEST(DecodeTest, PixelLimitIsExact) {
  for (const auto& [name, file] : OneOfEach()) {
    EXPECT_TRUE(DecodeFile(file, {.max_pixels = 35}).ok()) << name;
    EXPECT_THAT(Error(file, {.max_pixels = 34}),
                AllOf(HasSubstr(name), HasSubstr("7 x 5 pixels, expected at most 34")));
  }
}

TEST(DecodeTest, PixelsAreKnownBeforeDecoding) {
  const auto pixels = [](const std::string& file) { return PixelsOf(std::as_bytes(std::span<const char>(file))); };
  for (const auto& [name, file] : OneOfEach()) EXPECT_EQ(pixels(file), 35) << name;
  EXPECT_EQ(pixels(PngFile(5000, 4000, 8, 2, {"x"})), 20'000'000);
  EXPECT_GE(pixels(PngFile(-1, -1, 8, 2, {"x"})), std::int64_t{1} << 60);
  EXPECT_EQ(pixels(TiffFile(3, 2, "abcdef", {.rows_per_strip = 0x7FFFFFFF})), 6442450941);
  EXPECT_EQ(pixels(""), 0);
  EXPECT_EQ(pixels("no image"), 0);
}

// Headers that promise a huge picture in a few bytes, and sizes whose product does not fit 32 or 64 bits.
TEST(DecodeTest, RejectsDimensionOverflow) {
  const std::string much = "pixels, expected at most 16777216";
  for (const std::uint32_t side : {5000U, 46341U, 65536U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    const int as_int = static_cast<int>(side);
    EXPECT_THAT(Error(PngFile(as_int, as_int, 8, 2, {"x"})), HasSubstr(much)) << side;
    EXPECT_THAT(Error(TiffFile(side, side, "x", {.compression = 5})), HasSubstr(much)) << side;
    EXPECT_THAT(Error(TiffFile(side, side, "x")), HasSubstr("strip 0: got 1 bytes, expected ")) << side;
  }
  for (const std::uint32_t side : {5000U, 46341U, 65536U, 0x7FFFFFFFU}) {
    EXPECT_THAT(Error("P5\n" + std::to_string(side) + " " + std::to_string(side) + "\n255\nx"), HasSubstr(much));
  }
  EXPECT_THAT(Error("P5\n99999999999999999999 1\n255\nx"), HasSubstr("header is broken"));

  std::string jpeg = JpegFile(CountingImage(8, 8, 1));
  const std::size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_THAT(Error(jpeg), HasSubstr("65535 x 65535 " + much));

  std::string webp = WebpFile(CountingImage(8, 8, 3), ExifBlock(1));
  webp.replace(24, 6, "\xFF\xFF\xFF\xFF\xFF\xFF");
  EXPECT_THAT(Error(webp), HasSubstr("16777216 x 16777216 " + much));

  std::string bmp = BmpFile(CountingImage(8, 8, 3));
  bmp.replace(28, 6, Number(8, 2) + Number(1, 4));  // run-length coded: the size of the file says nothing
  bmp.replace(46, 4, Number(1, 4));
  bmp.replace(18, 8, Number(0x7FFFFFFF, 4) + Number(0x7FFFFFFF, 4));
  EXPECT_THAT(Error(bmp), HasSubstr("2147483647 x 2147483647 " + much));
  bmp = BmpFile(CountingImage(8, 8, 3));
  bmp.replace(18, 8, Number(30000, 4) + Number(30000, 4));
  EXPECT_THAT(Error(bmp), HasSubstr("expected 30000 rows of 90000 bytes"));
}

TEST(DecodeTest, StripsLargerThanTheLimitAreRejected) {
  EXPECT_THAT(Error(TiffFile(3, 2, "abcdef", {.rows_per_strip = 0x7FFFFFFF})), HasSubstr("got strips of 6442450941"));
  // A width that no limit lets through, and strips of which the product fits no number.
  EXPECT_THAT(Error(TiffFile(0xFFFFFFFE, 1, "x", {.compression = 5, .rows_per_strip = 0xFFFFFFFE})),
              HasSubstr("got 4294967294 x 1 pixels"));
}

TEST(DecodeTest, RejectsEmptySides) {
  EXPECT_THAT(Error(PngFile(0, 3, 8, 0, {})), HasSubstr("got 0 x 3 pixels, expected at least 1 x 1"));
  EXPECT_THAT(Error(TiffFile(3, 0, "x")), HasSubstr("got 3 x 0 pixels"));
  EXPECT_THAT(Error("P5\n0 0\n255\n"), HasSubstr("got 0 x 0 pixels"));
  std::string bmp = BmpFile(CountingImage(1, 1, 3));
  bmp.replace(18, 4, Number(0xFFFFFFFF, 4));
  EXPECT_THAT(Error(bmp), HasSubstr("got -1 x 1 pixels"));
}

TEST(DecodeTest, RejectsJpegWithMoreScansThanAnyEncoderWrites) {
  const std::string file = JpegFile(CountingImage(8, 8, 3), {.separate_scans = true});
  const std::size_t scan = file.find("\xFF\xDA");
  const std::size_t next = file.find("\xFF\xDA", scan + 2);
  ASSERT_NE(next, std::string::npos);
  const std::string first_scan = file.substr(scan, next - scan);
  const auto with_scans = [&](int count) {
    std::string out = file.substr(0, scan);
    for (int i = 0; i < count; ++i) out += first_scan;
    return out + file.substr(scan);
  };
  EXPECT_TRUE(DecodeFile(with_scans(20)).ok());
  EXPECT_THAT(Error(with_scans(500)), HasSubstr("more than 200 scans"));
}

TEST(DecodeTest, VariantsThatAreNotSupportedSaySo) {
  ImageU8 cmyk{.height = 8, .width = 8, .channels = 4, .pixels = std::vector<std::uint8_t>(256, 100)};
  EXPECT_EQ(Error(JpegFile(cmyk, {.cmyk = true})), "JPEG: CMYK is not supported, convert to RGB");
  EXPECT_THAT(Error(TiffFile(1, 1, "abcd", {.photometric = 5, .samples = 4})), HasSubstr("CMYK is not supported"));
  EXPECT_THAT(Error(TiffFile(1, 1, "abcd", {.bits = 32, .sample_format = 3})), HasSubstr("32 bits and format 3"));
  EXPECT_THAT(Error(TiffFile(1, 1, "ab", {.samples = 2})), HasSubstr("got 2 samples per pixel, expected 1, 3 or 4"));
  EXPECT_THAT(Error(TiffFile(1, 1, "abc", {.photometric = 2, .samples = 3, .planar = 2})), HasSubstr("planes"));
  EXPECT_THAT(Error(TiffFile(1, 1, "abc", {.tiled = true})), HasSubstr("tiles are not supported"));
  EXPECT_THAT(Error(TiffFile(1, 2, "ab", {.rows_per_strip = 1})), HasSubstr("got 1 strips, expected 2"));
  EXPECT_THAT(Error(TiffFile(1, 1, "a", {.duplicate_width = true})), HasSubstr("directory is broken"));
  EXPECT_THAT(Error(TiffFile(4, 1, "abc")), HasSubstr("strip 0: got 3 bytes, expected 4"));
  std::string big_tiff = TiffFile(1, 1, "a");
  big_tiff[2] = 43;
  EXPECT_THAT(Error(big_tiff), HasSubstr("BigTIFF is not supported"));
  std::string animation = WebpFile(CountingImage(2, 2, 3), ExifBlock(1));
  animation[20] = static_cast<char>(animation[20] | 2);
  EXPECT_THAT(Error(animation), HasSubstr("animations are not supported"));
}

// A server's log must not fill with the decoders' own messages.
TEST(DecodeTest, BadFilesPrintNothing) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  for (const auto& [name, file] : OneOfEach()) {
    for (const std::size_t length : {file.size() / 3, file.size() / 2, file.size() - 3}) {
      EXPECT_NE(Error(file.substr(0, length)), "decoded") << name;
    }
  }
  const std::string jpeg = JpegFile(CountingImage(32, 32, 3));
  for (std::size_t i = 0; i < jpeg.size(); i += 3) {
    std::string damaged = jpeg;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    static_cast<void>(DecodeFile(damaged));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

int ThreadCount() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

TEST(DecodeTest, OpenCvStartsNoThreads) {
  const ImageU8 large{
      .height = 1500, .width = 2000, .channels = 3, .pixels = std::vector<std::uint8_t>(1500 * 2000 * 3, 9)};
  const std::string file = PngFile(large, PngChunk("eXIf", ExifBlock(7)));
  const int before = ThreadCount();
  const absl::StatusOr<ImageU8> image = DecodeFile(file);
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_TRUE(Preprocess(*image, {.height = 700, .width = 900, .channels = 3, .resize = ResizePolicy::kStretch}).ok());
  EXPECT_EQ(ThreadCount(), before);
}

}  // namespace
}  // namespace ckn
