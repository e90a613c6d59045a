#include "client/image_files.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::ckn::testing::TempDir;
using ::testing::ElementsAre;

TEST(ExpandImagePathsTest, FolderStandsForItsImagesSortedByName) {
  const TempDir folder;
  for (const char* name : {"c.png", "a.JPG", "b.pgm", "notes.txt", "png", ".png"}) folder.Write(name, "x");
  std::filesystem::create_directory(folder.File("sub.png"));
  const auto files = ExpandImagePaths({folder.path()});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(folder.File("a.JPG"), folder.File("b.pgm"), folder.File("c.png")));
}

TEST(ExpandImagePathsTest, FilesKeepTheirOrderWhateverTheirName) {
  const TempDir folder;
  const std::string file = folder.Write("z.dat", "x");
  const auto files = ExpandImagePaths({file, folder.File("missing"), file});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(file, folder.File("missing"), file));
}

TEST(ExpandImagePathsTest, FolderWithoutImagesIsAnError) {
  const TempDir folder;
  folder.Write("notes.txt", "x");
  EXPECT_EQ(ExpandImagePaths({folder.path()}).status().code(), absl::StatusCode::kNotFound);
}

TEST(ReadFileBytesTest, LimitIsExact) {
  const TempDir folder;
  const std::string bytes(100'000, 'b');
  const std::string file = folder.Write("x", bytes);
  const auto read = ReadFileBytes(file, 100'000);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, bytes);
  EXPECT_EQ(ReadFileBytes(file, 99'999).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ReadFileBytesTest, MissingFileAndFolderAreErrors) {
  const TempDir folder;
  EXPECT_EQ(ReadFileBytes(folder.File("missing"), 10).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadFileBytes(folder.path(), 10).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ckn
