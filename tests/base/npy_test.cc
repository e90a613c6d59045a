#include "server/base/npy.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::testing::HasSubstr;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The dictionary of a file whose framing is as NumPy's format description says.
std::string Dictionary(const std::string& file) {
  EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t length = static_cast<unsigned char>(file[8]) + 256 * static_cast<unsigned char>(file[9]);
  EXPECT_EQ((10 + length) % 64, 0U);
  const std::string dictionary = file.substr(10, length);
  EXPECT_EQ(dictionary.back(), '\n');
  return dictionary.substr(0, dictionary.find_last_not_of(" \n") + 1);
}

TEST(NpyTest, WritesHeaderAndValuesInCOrder) {
  const testing::TempDir dir;
  const std::vector<float> values = {1.0F, -2.5F, 0.0F, 3e38F, 1e-40F, 6.0F};
  const std::vector<std::int64_t> shape = {2, 3};
  ASSERT_TRUE(WriteNpy(dir.File("a.npy"), values, shape).ok());
  const std::string file = Read(dir.File("a.npy"));
  EXPECT_EQ(Dictionary(file), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  const std::string data = file.substr(file.size() - 24);
  EXPECT_EQ(data.substr(0, 4), std::string("\x00\x00\x80\x3f", 4));  // 1.0, little-endian
  std::vector<float> back(6);
  std::memcpy(back.data(), data.data(), 24);
  EXPECT_EQ(back, values);
}

TEST(NpyTest, ShapesAreWrittenAsPythonTuples) {
  const testing::TempDir dir;
  const auto dictionary = [&dir](const std::vector<std::int64_t>& shape, std::size_t count) {
    EXPECT_TRUE(WriteNpy(dir.File("s.npy"), std::vector<float>(count), shape).ok());
    const std::string file = Read(dir.File("s.npy"));
    EXPECT_EQ(file.size() % 64, count * 4 % 64);
    return Dictionary(file);
  };
  EXPECT_THAT(dictionary({}, 1), HasSubstr("'shape': (), }"));
  EXPECT_THAT(dictionary({5}, 5), HasSubstr("'shape': (5,), }"));
  EXPECT_THAT(dictionary({0, 7}, 0), HasSubstr("'shape': (0, 7), }"));
  EXPECT_THAT(dictionary({1, 2, 3, 4}, 24), HasSubstr("'shape': (1, 2, 3, 4), }"));
}

TEST(NpyTest, RowsAppendedGiveTheSameFileAsAllAtOnce) {
  const testing::TempDir dir;
  std::vector<float> values(3 * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::vector<std::int64_t> shape = {3, 4};
  ASSERT_TRUE(WriteNpy(dir.File("whole.npy"), values, shape).ok());
  absl::StatusOr<NpyWriter> writer = NpyWriter::Create(dir.File("rows.npy"), shape);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (std::size_t row = 0; row < 3; ++row) {
    ASSERT_TRUE(writer->Append(std::span(values).subspan(row * 4, 4)).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(dir.File("rows.npy")));
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(Read(dir.File("rows.npy")), Read(dir.File("whole.npy")));
}

TEST(NpyTest, AWrongNumberOfValuesGivesNoFile) {
  const testing::TempDir dir;
  const std::vector<std::int64_t> shape = {2, 2};
  absl::Status status = WriteNpy(dir.File("a.npy"), std::vector<float>(3), shape);
  EXPECT_THAT(std::string(status.message()), HasSubstr("got 3 values, expected 4"));
  status = WriteNpy(dir.File("a.npy"), std::vector<float>(5), shape);
  EXPECT_THAT(std::string(status.message()), HasSubstr("got 5 values, expected 4"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(NpyTest, ImpossibleShapesAreRejected) {
  const testing::TempDir dir;
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{-1}, {huge, 2}, {huge}, std::vector<std::int64_t>(33, 1)}) {
    EXPECT_EQ(NpyWriter::Create(dir.File("a.npy"), shape).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace ckn
