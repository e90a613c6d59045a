#include "server/base/atomic_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::ptrdiff_t FileCount(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(AtomicFileTest, WritesANewFileAndReplacesAnOldOne) {
  const testing::TempDir dir;
  const std::string path = dir.File("file");
  ASSERT_TRUE(WriteFileAtomically(path, "first").ok());
  EXPECT_EQ(Read(path), "first");
  ASSERT_TRUE(WriteFileAtomically(path, std::string("\0second", 7)).ok());
  EXPECT_EQ(Read(path), std::string("\0second", 7));
  EXPECT_EQ(FileCount(dir.path()), 1);
}

TEST(AtomicFileTest, OldContentStaysUntilCommit) {
  const testing::TempDir dir;
  const std::string path = dir.Write("file", "old");
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append("new ").ok());
  ASSERT_TRUE(file->Append("content").ok());
  EXPECT_EQ(Read(path), "old");
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Read(path), "new content");
}

TEST(AtomicFileTest, WithoutCommitNothingIsLeftBehind) {
  const testing::TempDir dir;
  const std::string path = dir.Write("file", "old");
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Append("new").ok());
    EXPECT_EQ(FileCount(dir.path()), 2);
  }
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(FileCount(dir.path()), 1);
}

TEST(AtomicFileTest, FailingWriteLeavesTheOldFile) {
  const testing::TempDir dir;
  const std::string path = dir.Write("file", "old");
  // A limit on the size of files stands for a full disk.
  rlimit old_limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 1000;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = WriteFileAtomically(path, std::string(5000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), StartsWith(path + ": cannot write: "));
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(FileCount(dir.path()), 1);
}

TEST(AtomicFileTest, MissingFolderIsNotFound) {
  const testing::TempDir dir;
  const absl::Status status = WriteFileAtomically(dir.File("no/such/file"), "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), StartsWith(dir.File("no/such/file") + ": "));
}

TEST(AtomicFileTest, DevicesAndFoldersAreLeftAlone) {
  const testing::TempDir dir;
  for (const std::string& path : {std::string("/dev/null"), dir.path()}) {
    const absl::Status status = WriteFileAtomically(path, "x");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not a regular file")) << path;
  }
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(fs::is_directory(dir.path()));
}

TEST(AtomicFileTest, ReplacesTheTargetOfASymbolicLink) {
  const testing::TempDir dir;
  const std::string target = dir.Write("target", "old");
  fs::create_symlink("target", dir.File("link"));
  ASSERT_TRUE(WriteFileAtomically(dir.File("link"), "new").ok());
  EXPECT_TRUE(fs::is_symlink(dir.File("link")));
  EXPECT_EQ(Read(target), "new");
  fs::create_symlink("not yet there", dir.File("dangling"));
  ASSERT_TRUE(WriteFileAtomically(dir.File("dangling"), "new").ok());
  EXPECT_EQ(Read(dir.File("not yet there")), "new");
}

TEST(AtomicFileTest, KeepsThePermissionsOfTheOldFile) {
  const testing::TempDir dir;
  const std::string path = dir.Write("file", "old");
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
}

TEST(AtomicFileTest, NewFilesFollowTheUmask) {
  const testing::TempDir dir;
  const mode_t old_mask = umask(027);
  const absl::Status status = WriteFileAtomically(dir.File("file"), "x");
  umask(old_mask);
  ASSERT_TRUE(status.ok()) << status;
  struct stat info = {};
  ASSERT_EQ(stat(dir.File("file").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
}

}  // namespace
}  // namespace ckn
