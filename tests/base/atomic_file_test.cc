#include "server/base/atomic_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
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

TEST(AtomicFileTest, WhatAKilledProcessLeftIsRemoved) {
  const testing::TempDir dir;
  const std::string path = dir.File("f");
  const auto make_old = [](const std::string& file) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  // A child that ends without destructors.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto file = AtomicFile::Create(path);
    _exit(file.ok() && file->Append("half").ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const std::string left = absl::StrCat(path, ".", child, ".");
  // One that is at work, one that has just begun, and files of other names.
  auto at_work = AtomicFile::Create(path);
  ASSERT_TRUE(at_work.ok());
  for (const char* const name : {"f.12.0.tmp.txt", "f.x.0.tmp", "g.12.0.tmp", "f..0.tmp", "f.tmp"}) {
    dir.Write(name, "");
    make_old(dir.File(name));
  }
  dir.Write("f.99999999.0.tmp", "");
  std::size_t before = 0, stale = 0;
  for (const auto& entry : fs::directory_iterator(dir.path())) {
    ++before;
    const std::string file = entry.path().native();
    if (file.starts_with(left)) ++stale;
    if (file.ends_with(".tmp") && !file.ends_with("f.99999999.0.tmp")) make_old(file);
  }
  EXPECT_EQ(stale, 1U);
  EXPECT_EQ(before, 8U);
  ASSERT_TRUE(WriteFileAtomically(path, "whole").ok());
  ASSERT_TRUE(at_work->Append("later").ok());
  ASSERT_TRUE(at_work->Commit().ok()) << "its file was left alone";
  std::size_t after = 0;
  for (const auto& entry : fs::directory_iterator(dir.path())) {
    ++after;
    EXPECT_FALSE(entry.path().native().starts_with(left)) << entry.path();
  }
  EXPECT_EQ(after, 7U) << "the file, five of other names, and the one that has just begun";
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
