#include "server/training/dataset.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/image/encode_png.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;

std::string Big32(std::uint32_t value) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(value >> shift & 0xFF));
  return out;
}

std::string Bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out.push_back(static_cast<char>(value));
  return out;
}

std::string Gzip(const std::string& plain) {
  z_stream stream = {};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, static_cast<uLong>(plain.size())), '\0');
  std::string in = plain;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Dataset Load(const std::string& name, Split split) {
  absl::StatusOr<Dataset> data = LoadDataset(name, split);
  if (!data.ok()) {
    ADD_FAILURE() << data.status();
    return {};
  }
  return *std::move(data);
}

// The message of a load that must fail with this code.
std::string Error(const std::string& name, Split split, absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const absl::StatusOr<Dataset> data = LoadDataset(name, split);
  EXPECT_EQ(data.status().code(), code) << data.status();
  return std::string(data.status().message());
}

TEST(DatasetTest, NamesAreAKindAndAFolder) {
  for (const char* name : {"", "mnist", "mnist:", ":x", "cifar100:/tmp", "MNIST:/tmp", "/tmp/mnist"}) {
    EXPECT_THAT(Error(name, Split::kTrain),
                HasSubstr("expected KIND:FOLDER with KIND mnist, cifar10, stl10 or images"));
    EXPECT_FALSE(HasSplit(name, Split::kTrain));
  }
  EXPECT_THAT(Error("mnist:/no/such/folder", Split::kTrain, absl::StatusCode::kNotFound),
              HasSubstr("/no/such/folder: no such folder"));
}

TEST(DatasetTest, ImageIsOneRowOfThePixels) {
  Dataset data;
  data.height = 1;
  data.width = 2;
  data.channels = 3;
  data.labels = {0, 0};
  for (int i = 0; i < 12; ++i) data.pixels.push_back(static_cast<std::uint8_t>(i));
  const ImageU8 image = data.Image(1);
  EXPECT_EQ(image.height, 1);
  EXPECT_EQ(image.width, 2);
  EXPECT_EQ(image.channels, 3);
  EXPECT_THAT(image.pixels, ElementsAre(6, 7, 8, 9, 10, 11));
}

TEST(DatasetTest, Sha256CoversSizeLabelsAndPixels) {
  Dataset data;
  data.height = 2;
  data.width = 1;
  data.channels = 1;
  data.labels = {0, 1};
  data.pixels = {1, 2, 3, 4};
  data.class_names = {"a", "b"};
  // printf '\2\0\0\0\0\0\0\0\2\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\1\2\3\4' | sha256sum
  const std::string digest = DatasetSha256(data);
  EXPECT_EQ(digest, "b0a016765bc8dbbb0444e81916622408befdf8d18fd1844e6d1d4090cf0abfe5");
  Dataset other = data;
  other.title = "another title";
  other.class_names = {"c", "d"};
  EXPECT_EQ(DatasetSha256(other), digest);
  other.pixels[3] = 5;
  EXPECT_NE(DatasetSha256(other), digest);
  other = data;
  std::swap(other.height, other.width);
  EXPECT_NE(DatasetSha256(other), digest);
  other = data;
  other.labels[0] = 1;
  EXPECT_NE(DatasetSha256(other), digest);
}

TEST(DatasetTest, ClassesAreMatchedByNameInAnyOrder) {
  Dataset data;
  data.class_names = {"dog", "cat"};
  const absl::StatusOr<std::vector<int>> indices = MatchClasses(data, {"cat", "cow", "dog"});
  ASSERT_TRUE(indices.ok()) << indices.status();
  EXPECT_THAT(*indices, ElementsAre(2, 0));
  const absl::Status unknown = MatchClasses(data, {"cat", "cow"}).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.message(), "the data's class \"dog\" is not a class of the model, expected one of: cat, cow");
}

TEST(DatasetTest, DataWithoutNamesAreMatchedByNumber) {
  Dataset data;
  data.class_names = {"0", "1"};
  data.has_class_names = false;
  const absl::StatusOr<std::vector<int>> indices = MatchClasses(data, {"cat", "cow", "dog"});
  ASSERT_TRUE(indices.ok()) << indices.status();
  EXPECT_THAT(*indices, ElementsAre(0, 1));
  EXPECT_THAT(std::string(MatchClasses(data, {"cat"}).status().message()),
              HasSubstr("got 2 classes, expected at most the 1 of the model"));
}

TEST(DatasetTest, ClassNamesCanBeReadFromAFile) {
  const TempDir dir;
  Dataset data;
  data.class_names = {"0", "1"};
  data.has_class_names = false;
  ASSERT_TRUE(ReadClassNamesFrom(dir.Write("names", "cat\ndog\ncow\n"), data).ok());
  EXPECT_THAT(data.class_names, ElementsAre("cat", "dog", "cow"));
  EXPECT_TRUE(data.has_class_names);
  EXPECT_EQ(ReadClassNamesFrom(dir.Write("few", "cat\n"), data).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadClassNamesFrom(dir.File("none"), data).code(), absl::StatusCode::kNotFound);
}

// ---- IDX

struct IdxFiles {
  std::string images = Big32(2051) + Big32(3) + Big32(2) + Big32(1) + Bytes({1, 2, 3, 4, 5, 6});
  std::string labels = Big32(2049) + Big32(3) + Bytes({2, 0, 1});
};

TEST(IdxDatasetTest, ReadsBothSplits) {
  const TempDir dir;
  const IdxFiles files;
  dir.Write("train-images-idx3-ubyte", files.images);
  dir.Write("train-labels-idx1-ubyte", files.labels);
  dir.Write("t10k-images-idx3-ubyte", Big32(2051) + Big32(1) + Big32(2) + Big32(1) + Bytes({7, 8}));
  dir.Write("t10k-labels-idx1-ubyte", Big32(2049) + Big32(1) + Bytes({1}));
  const Dataset train = Load("mnist:" + dir.path(), Split::kTrain);
  EXPECT_EQ(train.size(), 3U);
  EXPECT_EQ(train.height, 2);
  EXPECT_EQ(train.width, 1);
  EXPECT_EQ(train.channels, 1);
  EXPECT_THAT(train.pixels, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(train.labels, ElementsAre(2, 0, 1));
  EXPECT_THAT(train.class_names, ElementsAre("0", "1", "2"));
  EXPECT_FALSE(train.has_class_names);
  EXPECT_EQ(train.title, "mnist:" + std::filesystem::path(dir.path()).filename().string());
  const Dataset test = Load("mnist:" + dir.path() + "/", Split::kTest);
  EXPECT_THAT(test.pixels, ElementsAre(7, 8));
  EXPECT_THAT(test.class_names, ElementsAre("0", "1"));
  EXPECT_EQ(test.title, train.title);
  EXPECT_TRUE(HasSplit("mnist:" + dir.path(), Split::kTrain));
  EXPECT_TRUE(HasSplit("mnist:" + dir.path(), Split::kTest));
}

TEST(IdxDatasetTest, EveryNameAndCompressionGivesTheSameData) {
  const IdxFiles files;
  std::vector<std::string> digests;
  for (const char* separator : {"-", "."}) {
    for (const bool gz : {false, true}) {
      const TempDir dir;
      const std::string suffix = gz ? ".gz" : "";
      dir.Write(absl::StrCat("train-images", separator, "idx3-ubyte", suffix), gz ? Gzip(files.images) : files.images);
      dir.Write(absl::StrCat("train-labels", separator, "idx1-ubyte", suffix), gz ? Gzip(files.labels) : files.labels);
      digests.push_back(DatasetSha256(Load("mnist:" + dir.path(), Split::kTrain)));
    }
  }
  EXPECT_EQ(std::count(digests.begin(), digests.end(), digests.front()), 4);
}

TEST(IdxDatasetTest, ClassNamesFileNamesTheClasses) {
  const TempDir dir;
  const IdxFiles files;
  dir.Write("train-images-idx3-ubyte", files.images);
  dir.Write("train-labels-idx1-ubyte", files.labels);
  dir.Write("class_names.txt", "T-shirt/top\r\nTrouser \nPullover\nDress\n\n");
  EXPECT_THAT(Load("mnist:" + dir.path(), Split::kTrain).class_names,
              ElementsAre("T-shirt/top", "Trouser", "Pullover", "Dress"));
  dir.Write("class_names.txt", "a\nb\n");
  EXPECT_THAT(Error("mnist:" + dir.path(), Split::kTrain), HasSubstr("got 2 class names, expected 3"));
  dir.Write("class_names.txt", "a\nb\na\n");
  EXPECT_THAT(Error("mnist:" + dir.path(), Split::kTrain), HasSubstr("class_names.txt:3: class name \"a\""));
  dir.Write("class_names.txt", "a\n\nb\n");
  EXPECT_THAT(Error("mnist:" + dir.path(), Split::kTrain), HasSubstr("class_names.txt:2: got \"\""));
  dir.Write("class_names.txt", "a\nb\x1b\nc\n");
  EXPECT_THAT(Error("mnist:" + dir.path(), Split::kTrain), HasSubstr("expected a printable class name"));
}

TEST(IdxDatasetTest, MissingFilesAreNotFound) {
  const TempDir dir;
  const IdxFiles files;
  EXPECT_FALSE(HasSplit("mnist:" + dir.path(), Split::kTrain));
  EXPECT_THAT(Error("mnist:" + dir.path(), Split::kTrain, absl::StatusCode::kNotFound),
              HasSubstr("no train-images-idx3-ubyte or .gz"));
  dir.Write("train-images-idx3-ubyte", files.images);
  EXPECT_FALSE(HasSplit("mnist:" + dir.path(), Split::kTrain));
  EXPECT_THAT(Error("mnist:" + dir.path(), Split::kTrain, absl::StatusCode::kNotFound),
              HasSubstr("no train-labels-idx1-ubyte or .gz"));
  EXPECT_THAT(Error("mnist:" + dir.path(), Split::kTest, absl::StatusCode::kNotFound), HasSubstr("no t10k-images"));
}

class BrokenIdxTest : public ::testing::Test {
 protected:
  std::string ErrorOf(const std::string& images, const std::string& labels) {
    dir_.Write("train-images-idx3-ubyte", images);
    dir_.Write("train-labels-idx1-ubyte", labels);
    return Error("mnist:" + dir_.path(), Split::kTrain);
  }

  TempDir dir_;
  IdxFiles good_;
};

TEST_F(BrokenIdxTest, WrongMagicNumbers) {
  EXPECT_THAT(ErrorOf(good_.labels, good_.labels),
              HasSubstr("train-images-idx3-ubyte: got magic number 2049 at byte 0, expected 2051"));
  EXPECT_THAT(ErrorOf(good_.images, good_.images),
              HasSubstr("train-labels-idx1-ubyte: got magic number 2051 at byte 0, expected 2049"));
}

TEST_F(BrokenIdxTest, CountsThatDisagree) {
  EXPECT_THAT(ErrorOf(Big32(2051) + Big32(2) + Big32(2) + Big32(1) + Bytes({1, 2, 3, 4}), good_.labels),
              HasSubstr("got 2 images, expected 3 as in train-labels-idx1-ubyte"));
  EXPECT_THAT(ErrorOf(Big32(2051) + Big32(0) + Big32(2) + Big32(1), Big32(2049) + Big32(0)), HasSubstr("got 0 images"));
}

TEST_F(BrokenIdxTest, SizesOutOfRange) {
  const std::string labels = Big32(2049) + Big32(1) + Bytes({0});
  for (const std::uint32_t side : {0U, 16385U, 0xFFFFFFFFU}) {
    EXPECT_THAT(ErrorOf(Big32(2051) + Big32(1) + Big32(side) + Big32(1) + "x", labels),
                HasSubstr(absl::StrCat("got images of ", side, " x 1 at byte 8, expected sides of 1 to 16384")));
  }
}

TEST_F(BrokenIdxTest, EveryTruncationNamesTheOffset) {
  for (std::size_t length = 0; length < good_.images.size(); ++length) {
    EXPECT_THAT(ErrorOf(good_.images.substr(0, length), good_.labels),
                HasSubstr(absl::StrCat("train-images-idx3-ubyte: truncated at byte ", length)))
        << length;
  }
  for (std::size_t length = 0; length < good_.labels.size(); ++length) {
    EXPECT_THAT(ErrorOf(good_.images, good_.labels.substr(0, length)),
                HasSubstr(absl::StrCat("train-labels-idx1-ubyte: truncated at byte ", length)))
        << length;
  }
}

TEST_F(BrokenIdxTest, TrailingDataNamesTheOffset) {
  EXPECT_THAT(ErrorOf(good_.images + "x", good_.labels), HasSubstr("trailing data at byte 22"));
  EXPECT_THAT(ErrorOf(good_.images, good_.labels + "x"), HasSubstr("trailing data at byte 11"));
}

TEST_F(BrokenIdxTest, DamagedCompression) {
  dir_.Write("train-labels-idx1-ubyte", good_.labels);
  const std::string gz = Gzip(good_.images);
  for (std::size_t length = 0; length < gz.size(); ++length) {
    dir_.Write("train-images-idx3-ubyte.gz", gz.substr(0, length));
    EXPECT_NE(Error("mnist:" + dir_.path(), Split::kTrain), "") << length;
  }
  std::string flipped = gz;
  flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 1);  // in the checksum
  dir_.Write("train-images-idx3-ubyte.gz", flipped);
  EXPECT_THAT(Error("mnist:" + dir_.path(), Split::kTrain), HasSubstr("cannot read at byte 0: incorrect data check"));
}

// The header promises 2^32 images of 2^28 pixels; memory is asked for only as the bytes arrive.
TEST_F(BrokenIdxTest, PromisedSizeIsNotAllocated) {
  EXPECT_THAT(ErrorOf(good_.images, Big32(2049) + Big32(0xFFFFFFFF) + "abc"), HasSubstr("truncated at byte 11"));
  EXPECT_THAT(ErrorOf(Big32(2051) + Big32(3) + Big32(16384) + Big32(16384) + "abc", good_.labels),
              HasSubstr("truncated at byte 19"));
}

// ---- CIFAR-10

// A record whose pixel (y, x) is (label, y, x).
std::string CifarRecord(int label) {
  std::string record = Bytes({label});
  record += std::string(1024, static_cast<char>(label));
  for (int y = 0; y < 32; ++y) record += std::string(32, static_cast<char>(y));
  for (int y = 0; y < 32; ++y) {
    for (int x = 0; x < 32; ++x) record.push_back(static_cast<char>(x));
  }
  return record;
}

TEST(Cifar10DatasetTest, ReadsPlanesAndBatchesInOrder) {
  const TempDir dir;
  for (const bool inner : {false, true}) {
    const std::string folder = inner ? "cifar-10-batches-bin/" : "";
    if (inner) std::filesystem::create_directory(dir.File("cifar-10-batches-bin"));
    for (int i = 1; i <= 5; ++i) {
      dir.Write(absl::StrCat(folder, "data_batch_", i, ".bin"), CifarRecord(i) + CifarRecord(inner ? 9 : 0));
    }
    EXPECT_FALSE(HasSplit("cifar10:" + dir.path(), Split::kTest));
    EXPECT_TRUE(HasSplit("cifar10:" + dir.path(), Split::kTrain));
    const Dataset data = Load("cifar10:" + dir.path(), Split::kTrain);
    EXPECT_EQ(data.height, 32);
    EXPECT_EQ(data.width, 32);
    EXPECT_EQ(data.channels, 3);
    const int other = inner ? 9 : 0;
    EXPECT_THAT(data.labels, ElementsAre(1, other, 2, other, 3, other, 4, other, 5, other));
    EXPECT_EQ(data.class_names.at(0), "airplane");
    EXPECT_EQ(data.class_names.at(9), "truck");
    const ImageU8 image = data.Image(4);
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        const std::uint8_t* pixel = image.pixels.data() + (y * 32 + x) * 3;
        ASSERT_THAT(std::vector<int>(pixel, pixel + 3), ElementsAre(3, y, x));
      }
    }
  }
  std::filesystem::copy(dir.File("data_batch_1.bin"), dir.File("cifar-10-batches-bin/test_batch.bin"));
  EXPECT_EQ(Load("cifar10:" + dir.path(), Split::kTest).size(), 2U);
}

TEST(Cifar10DatasetTest, ClassNamesComeFromTheMetaFile) {
  const TempDir dir;
  dir.Write("test_batch.bin", CifarRecord(7));
  dir.Write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(Load("cifar10:" + dir.path(), Split::kTest).class_names.at(7), "h");
  dir.Write("batches.meta.txt", "a\nb\n");
  EXPECT_THAT(Error("cifar10:" + dir.path(), Split::kTest), HasSubstr("got 2 class names, expected 10"));
  dir.Write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n");
  EXPECT_THAT(Error("cifar10:" + dir.path(), Split::kTest), HasSubstr("got 11 class names, expected 10"));
}

TEST(Cifar10DatasetTest, BrokenFilesAreRejected) {
  const TempDir dir;
  EXPECT_THAT(Error("cifar10:" + dir.path(), Split::kTest, absl::StatusCode::kNotFound),
              HasSubstr("test_batch.bin: cannot open: No such file"));
  dir.Write("test_batch.bin", CifarRecord(1) + CifarRecord(10));
  EXPECT_THAT(Error("cifar10:" + dir.path(), Split::kTest),
              HasSubstr("test_batch.bin: got label 10 at byte 3073, expected 0 to 9"));
  for (const std::size_t size : {0U, 3072U, 3074U}) {
    dir.Write("test_batch.bin", std::string(size, '\0'));
    EXPECT_THAT(Error("cifar10:" + dir.path(), Split::kTest),
                HasSubstr(absl::StrCat("got ", size, " bytes, expected a positive multiple of 3073")));
  }
}

// ---- STL-10

// Column by column: pixel (y, x) of the image is (value, y, x).
std::string StlImage(int value) {
  std::string image(96 * 96, static_cast<char>(value));
  for (int x = 0; x < 96; ++x) {
    for (int y = 0; y < 96; ++y) image.push_back(static_cast<char>(y));
  }
  for (int x = 0; x < 96; ++x) image += std::string(96, static_cast<char>(x));
  return image;
}

TEST(Stl10DatasetTest, ReadsColumnMajorPlanesAndLabelsFromOne) {
  const TempDir dir;
  for (const bool inner : {false, true}) {
    const std::string folder = inner ? "stl10_binary/" : "";
    if (inner) std::filesystem::create_directory(dir.File("stl10_binary"));
    dir.Write(folder + "train_X.bin", StlImage(50) + StlImage(60));
    dir.Write(folder + "train_y.bin", Bytes({1, 10}));
    EXPECT_TRUE(HasSplit("stl10:" + dir.path(), Split::kTrain));
    EXPECT_FALSE(HasSplit("stl10:" + dir.path(), Split::kTest));
    const Dataset data = Load("stl10:" + dir.path(), Split::kTrain);
    EXPECT_EQ(data.height, 96);
    EXPECT_EQ(data.width, 96);
    EXPECT_EQ(data.channels, 3);
    EXPECT_THAT(data.labels, ElementsAre(0, 9));
    EXPECT_EQ(data.class_names.at(0), "airplane");
    EXPECT_EQ(data.class_names.at(7), "monkey");
    const ImageU8 image = data.Image(1);
    for (int y = 0; y < 96; ++y) {
      for (int x = 0; x < 96; ++x) {
        const std::uint8_t* pixel = image.pixels.data() + (y * 96 + x) * 3;
        ASSERT_THAT(std::vector<int>(pixel, pixel + 3), ElementsAre(60, y, x));
      }
    }
  }
  dir.Write("stl10_binary/class_names.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
  EXPECT_EQ(Load("stl10:" + dir.path(), Split::kTrain).class_names.at(9), "j");
}

TEST(Stl10DatasetTest, FoldsComeFromTheirFile) {
  const TempDir dir;
  dir.Write("train_X.bin", StlImage(1) + StlImage(2) + StlImage(3));
  dir.Write("train_y.bin", Bytes({1, 2, 3}));
  dir.Write("test_X.bin", StlImage(1));
  dir.Write("test_y.bin", Bytes({1}));
  EXPECT_TRUE(Load("stl10:" + dir.path(), Split::kTrain).folds.empty());
  dir.Write("fold_indices.txt", "2 0 \n1\r\n\n");
  EXPECT_THAT(Load("stl10:" + dir.path(), Split::kTrain).folds, ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
  EXPECT_TRUE(Load("stl10:" + dir.path(), Split::kTest).folds.empty());
  for (const auto& [text, message] :
       std::map<std::string, std::string>{{"0 1\n3", "fold 1: got \"3\", expected an image index of 0 to 2"},
                                          {"-1", "fold 0: got \"-1\""},
                                          {"0 x", "fold 0: got \"x\""},
                                          {"1 0 1", "fold 0: got image 1 twice"}}) {
    dir.Write("fold_indices.txt", text);
    EXPECT_THAT(Error("stl10:" + dir.path(), Split::kTrain), HasSubstr("fold_indices.txt: " + message));
  }
}

TEST(Stl10DatasetTest, BrokenFilesAreRejected) {
  const TempDir dir;
  EXPECT_THAT(Error("stl10:" + dir.path(), Split::kTest, absl::StatusCode::kNotFound), HasSubstr("No such file"));
  dir.Write("test_X.bin", StlImage(1));
  dir.Write("test_y.bin", Bytes({1, 2}));
  EXPECT_THAT(Error("stl10:" + dir.path(), Split::kTest), HasSubstr("got 1 images, expected 2 as in test_y.bin"));
  for (const int label : {0, 11}) {
    dir.Write("test_y.bin", Bytes({label}));
    EXPECT_THAT(Error("stl10:" + dir.path(), Split::kTest),
                HasSubstr(absl::StrCat("test_y.bin: got label ", label, " at byte 0, expected 1 to 10")));
  }
  dir.Write("test_X.bin", StlImage(1).substr(1));
  EXPECT_THAT(Error("stl10:" + dir.path(), Split::kTest), HasSubstr("expected a positive multiple of 27648"));
}

// ---- folders of images

class ImageFolderTest : public ::testing::Test {
 protected:
  void WriteImage(const std::string& name, int height, int width, int channels, int value) {
    std::filesystem::create_directories(std::filesystem::path(dir_.File(name)).parent_path());
    const ImageU8 image{.height = height,
                        .width = width,
                        .channels = channels,
                        .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(height) * width * channels,
                                                            static_cast<std::uint8_t>(value))};
    const absl::StatusOr<std::string> png = EncodePng(image);
    ASSERT_TRUE(png.ok());
    dir_.Write(name, *png);
  }
  [[nodiscard]] std::string Name() const { return "images:" + dir_.path(); }

  TempDir dir_;
};

TEST_F(ImageFolderTest, ClassesAndFilesComeInTheOrderOfTheirNames) {
  WriteImage("train/dog/2.png", 2, 3, 1, 2);
  WriteImage("train/cat/b.png", 2, 3, 1, 1);
  WriteImage("train/cat/a.png", 2, 3, 1, 0);
  WriteImage("train/dog/10.png", 2, 3, 1, 3);
  WriteImage("test/dog/x.png", 2, 3, 1, 9);
  dir_.Write("train/cat/.DS_Store", "hidden");
  dir_.Write("train/README", "not a class");
  const Dataset data = Load(Name(), Split::kTrain);
  EXPECT_EQ(data.height, 2);
  EXPECT_EQ(data.width, 3);
  EXPECT_EQ(data.channels, 1);
  EXPECT_THAT(data.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(data.labels, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(data.item_names, ElementsAre("cat/a.png", "cat/b.png", "dog/10.png", "dog/2.png"));
  EXPECT_EQ(data.Image(2).pixels[0], 3);
  const Dataset test = Load(Name(), Split::kTest);
  EXPECT_THAT(test.class_names, ElementsAre("dog"));
  EXPECT_THAT(test.pixels, ElementsAre(9, 9, 9, 9, 9, 9));
}

TEST_F(ImageFolderTest, WithoutSplitFoldersEverythingIsTheTrainingSplit) {
  WriteImage("cat/a.png", 1, 1, 1, 5);
  WriteImage("dog/b.png", 1, 1, 1, 6);
  EXPECT_TRUE(HasSplit(Name(), Split::kTrain));
  EXPECT_FALSE(HasSplit(Name(), Split::kTest));
  EXPECT_THAT(Load(Name(), Split::kTrain).class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(Error(Name(), Split::kTest, absl::StatusCode::kNotFound), HasSubstr("no folder \"test\""));
}

TEST_F(ImageFolderTest, OnlyATestFolderHasNoTrainingSplit) {
  WriteImage("test/cat/a.png", 1, 1, 1, 5);
  EXPECT_TRUE(HasSplit(Name(), Split::kTest));
  EXPECT_FALSE(HasSplit(Name(), Split::kTrain));
  EXPECT_THAT(Error(Name(), Split::kTrain, absl::StatusCode::kNotFound), HasSubstr("no folder \"train\""));
}

TEST_F(ImageFolderTest, GrayAndColourMixedBecomeColour) {
  WriteImage("a/1.png", 1, 1, 1, 10);
  WriteImage("a/2.png", 1, 1, 3, 20);
  WriteImage("b/3.png", 1, 1, 1, 30);
  const Dataset data = Load(Name(), Split::kTrain);
  EXPECT_EQ(data.channels, 3);
  EXPECT_THAT(data.pixels, ElementsAre(10, 10, 10, 20, 20, 20, 30, 30, 30));
}

TEST_F(ImageFolderTest, AnotherSizeNamesBothFilesAndSizes) {
  WriteImage("a/1.png", 4, 5, 1, 0);
  WriteImage("b/2.png", 4, 6, 1, 0);
  EXPECT_THAT(
      Error(Name(), Split::kTrain),
      AllOf(HasSubstr("b/2.png: got 4 x 6 pixels (height x width), expected 4 x 5 as in "), HasSubstr("a/1.png")));
}

TEST_F(ImageFolderTest, FilesThatAreNotImagesAreNamed) {
  WriteImage("a/1.png", 4, 5, 1, 0);
  dir_.Write("a/notes.txt", "hello");
  EXPECT_THAT(Error(Name(), Split::kTrain), HasSubstr("a/notes.txt: unknown image format"));
}

TEST_F(ImageFolderTest, EmptyFoldersAreRejected) {
  EXPECT_THAT(Error(Name(), Split::kTrain, absl::StatusCode::kNotFound), HasSubstr("no class folders"));
  WriteImage("a/1.png", 1, 1, 1, 0);
  std::filesystem::create_directory(dir_.File("b"));
  EXPECT_THAT(Error(Name(), Split::kTrain), HasSubstr("/b: no images"));
  dir_.Write("b/empty.png", "");
  EXPECT_THAT(Error(Name(), Split::kTrain), HasSubstr("b/empty.png: got 0 bytes"));
}

TEST_F(ImageFolderTest, UnprintableClassNamesAreRejected) {
  WriteImage("a\x1b[31m/1.png", 1, 1, 1, 0);
  EXPECT_THAT(Error(Name(), Split::kTrain), HasSubstr("folder name \"a\\x1b[31m\" is not printable UTF-8"));
}

}  // namespace
}  // namespace ckn
