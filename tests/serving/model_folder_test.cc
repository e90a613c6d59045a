#include "server/serving/model_folder.h"

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::ckn::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ScanModelFolderTest : public ::testing::Test {
 protected:
  void Put(const std::string& file) {
    std::filesystem::create_directories(std::filesystem::path(folder_.File(file)).parent_path());
    folder_.Write(file, file);
  }
  // (path in the folder, name of the folder, version)
  std::vector<std::tuple<std::string, std::string, int>> Found() {
    const auto contents = ScanModelFolder(folder_.path());
    EXPECT_TRUE(contents.ok()) << contents.status();
    EXPECT_TRUE(contents->unusable.empty());
    std::vector<std::tuple<std::string, std::string, int>> found;
    for (const ModelFileEntry& entry : contents->files) {
      found.emplace_back(entry.path.substr(folder_.path().size() + 1), entry.folder_name, entry.version);
    }
    return found;
  }

  const TempDir folder_;
};

TEST_F(ScanModelFolderTest, FilesAndFoldersOfVersions) {
  for (const char* const file : {"b.ckn", "digits/1/model.ckn", "digits/12/any name.ckn", "clothes/3/x.ckn"}) Put(file);
  using Entry = std::tuple<std::string, std::string, int>;
  EXPECT_THAT(Found(),
              ElementsAre(Entry("b.ckn", "", 1), Entry("clothes/3/x.ckn", "clothes", 3),
                          Entry("digits/1/model.ckn", "digits", 1), Entry("digits/12/any name.ckn", "digits", 12)));
}

TEST_F(ScanModelFolderTest, WhateverElseLiesThereIsNotLookedAt) {
  Put("a.ckn");
  for (const char* const file : {"notes.txt", ".hidden.ckn", "..data/1/a.ckn", "results/mnist/cells/a.ckn",
                                 "digits/latest/a.ckn", "digits/0/a.ckn", "digits/01/a.ckn", "digits/-1/a.ckn",
                                 "digits/1x/a.ckn", "digits/99999999999999999999/a.ckn", "digits/2/notes.txt"}) {
    Put(file);
  }
  std::filesystem::create_directory(folder_.File("folder.ckn"));
  std::filesystem::create_symlink("nowhere", folder_.File("dangling.ckn"));
  EXPECT_EQ(Found().size(), 1U);
  // But told of, where it looks like a mistake.
  std::vector<std::string> ignored;
  for (const char* const name : {"-1", "0", "01", "1x", "99999999999999999999", "latest"}) {
    ignored.push_back(folder_.File(std::string("digits/") + name));
  }
  EXPECT_EQ(ScanModelFolder(folder_.path())->ignored, ignored);
  std::filesystem::remove(folder_.File("a.ckn"));
  EXPECT_THAT(ScanModelFolder(folder_.path()).status().message(),
              HasSubstr("holds no *.ckn file, but for " + ignored.front() + ", which is no version"));
}

TEST_F(ScanModelFolderTest, AFileWithoutItsVersionsFolderIsToldOf) {
  Put("a.ckn");
  Put("digits/d.ckn");
  Put("digits/2/d.ckn");
  const auto contents = ScanModelFolder(folder_.path());
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->files.size(), 2U);
  ASSERT_EQ(contents->unusable.size(), 1U);
  EXPECT_EQ(contents->unusable[0].name, "digits");
  EXPECT_THAT(std::string(contents->unusable[0].status.message()),
              AllOf(HasSubstr("digits/d.ckn: "), HasSubstr("digits/1/d.ckn")));
}

TEST_F(ScanModelFolderTest, TwoFilesOfOneVersionAreBothNamed) {
  Put("digits/1/a.ckn");
  Put("digits/1/b.ckn");
  Put("digits/2/c.ckn");
  const auto contents = ScanModelFolder(folder_.path());
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->files.size(), 1U);
  ASSERT_EQ(contents->unusable.size(), 1U);
  EXPECT_EQ(contents->unusable[0].name, "digits");
  EXPECT_THAT(std::string(contents->unusable[0].status.message()),
              AllOf(HasSubstr("digits/1"), HasSubstr("a.ckn"), HasSubstr("b.ckn")));
}

TEST_F(ScanModelFolderTest, IdentityChangesWithTheFile) {
  Put("a.ckn");
  const FileIdentity before = ScanModelFolder(folder_.path())->files.front().identity;
  EXPECT_EQ(ScanModelFolder(folder_.path())->files.front().identity, before);
  folder_.Write("new", "other content");
  std::filesystem::rename(folder_.File("new"), folder_.File("a.ckn"));
  EXPECT_NE(ScanModelFolder(folder_.path())->files.front().identity, before);
}

TEST_F(ScanModelFolderTest, MissingAndEmptyFoldersAreNamed) {
  const auto missing = ScanModelFolder(folder_.File("nowhere"));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), AllOf(HasSubstr("nowhere"), HasSubstr("No such file")));
  Put("README.md");
  const auto empty = ScanModelFolder(folder_.path());
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("holds no *.ckn file"));
}

}  // namespace
}  // namespace ckn
