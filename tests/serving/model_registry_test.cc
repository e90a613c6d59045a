#include "server/serving/model_registry.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/model_file.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::ckn::testing::TempDir;
using ::ckn::testing::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

void Write(const TempDir& folder, const std::string& file, const std::string& model_name) {
  const absl::Status status = WriteModelFile(TinyModel({.name = model_name}), folder.File(file));
  ASSERT_TRUE(status.ok()) << status;
}

TEST(LoadModelFolderTest, LoadsEveryModelFileUnderTheNameInIt) {
  const TempDir folder;
  Write(folder, "one.ckn", "beta");
  Write(folder, "two.ckn", "alpha");
  folder.Write("notes.txt", "not a model");
  const auto models = LoadModelFolder(folder.path());
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 2U);
  EXPECT_EQ(models->begin()->first, "alpha");
  const ServedModel& beta = *models->at("beta");
  EXPECT_EQ(beta.path, folder.File("one.ckn"));
  EXPECT_EQ(beta.info.name(), "beta");
  EXPECT_EQ(beta.info.height(), 8);
  EXPECT_EQ(beta.info.width(), 8);
  EXPECT_EQ(beta.info.channels(), 1);
  EXPECT_EQ(beta.info.features(), 3 * 3 * 4);
  EXPECT_EQ(beta.info.class_names_size(), 3);
  EXPECT_EQ(beta.info.sha256().size(), 64U);
  EXPECT_EQ(beta.info.validation_error_percent(), 12.5);
  EXPECT_FALSE(beta.info.has_test_error_percent());
  EXPECT_EQ(beta.longest_class_name, std::string("class 0").size());
}

TEST(LoadModelFolderTest, MissingFolderIsNamed) {
  const TempDir folder;
  const auto models = LoadModelFolder(folder.File("nowhere"));
  EXPECT_EQ(models.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(models.status()), AllOf(HasSubstr("nowhere"), HasSubstr("No such file")));
}

TEST(LoadModelFolderTest, FolderWithoutModelsIsAnError) {
  const TempDir folder;
  folder.Write("README.md", "none");
  const auto models = LoadModelFolder(folder.path());
  EXPECT_EQ(models.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(models.status()), HasSubstr("holds no *.ckn file"));
}

TEST(LoadModelFolderTest, BrokenFileIsNamedWithTheReason) {
  const TempDir folder;
  Write(folder, "good.ckn", "good");
  std::string bytes = SerializeModelFile(TinyModel());
  bytes[bytes.size() / 2] ^= 1;
  folder.Write("bad.ckn", bytes);
  const auto models = LoadModelFolder(folder.path());
  EXPECT_EQ(models.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(models.status()), AllOf(HasSubstr("bad.ckn"), HasSubstr("checksum")));
}

TEST(LoadModelFolderTest, TwoFilesWithOneModelNameAreBothNamed) {
  const TempDir folder;
  Write(folder, "a.ckn", "same");
  Write(folder, "b.ckn", "same");
  const auto models = LoadModelFolder(folder.path());
  EXPECT_EQ(models.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(models.status()), AllOf(HasSubstr("same"), HasSubstr("a.ckn"), HasSubstr("b.ckn")));
}

TEST(LoadModelFolderTest, ModelThatCannotComputeIsRefused) {
  const TempDir folder;
  Model model = TinyModel();
  // Too large for the format's reader, so written behind its back.
  model.svm.weights.setConstant(3e38F);
  folder.Write("overflow.ckn", SerializeModelFile(model));
  const auto models = LoadModelFolder(folder.path());
  EXPECT_FALSE(models.ok());
  EXPECT_THAT(Message(models.status()), AllOf(HasSubstr("overflow.ckn"), HasSubstr("svm.weights[0]: got 3e+38")));
}

TEST(ModelRegistryTest, EmptyNameMeansTheOnlyModel) {
  const TempDir folder;
  Write(folder, "a.ckn", "alpha");
  ModelRegistry registry;
  EXPECT_EQ(registry.Find("alpha").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(registry.Find("").status().code(), absl::StatusCode::kNotFound);

  auto one = LoadModelFolder(folder.path());
  ASSERT_TRUE(one.ok()) << one.status();
  registry.Replace(*std::move(one));
  ASSERT_TRUE(registry.Find("").ok());
  EXPECT_EQ((*registry.Find(""))->info.name(), "alpha");

  Write(folder, "b.ckn", "beta");
  auto two = LoadModelFolder(folder.path());
  ASSERT_TRUE(two.ok()) << two.status();
  registry.Replace(*std::move(two));
  const auto ambiguous = registry.Find("");
  EXPECT_EQ(ambiguous.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(ambiguous.status()), AllOf(HasSubstr("alpha"), HasSubstr("beta")));
  EXPECT_EQ((*registry.Find("beta"))->info.name(), "beta");
}

TEST(ModelRegistryTest, UnknownNameIsQuotedSafely) {
  const TempDir folder;
  Write(folder, "a.ckn", "alpha");
  auto models = LoadModelFolder(folder.path());
  ASSERT_TRUE(models.ok()) << models.status();
  ModelRegistry registry;
  registry.Replace(*std::move(models));
  const auto unknown = registry.Find("no\nsuch" + std::string(1000, 'x'));
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(unknown.status()), AllOf(HasSubstr("no\\x0asuch"), HasSubstr("\"alpha\"")));
  EXPECT_LT(unknown.status().message().size(), 200U);
}

TEST(ModelRegistryTest, ReplacingLeavesTakenModelsAlone) {
  const TempDir folder;
  Write(folder, "a.ckn", "alpha");
  auto models = LoadModelFolder(folder.path());
  ASSERT_TRUE(models.ok()) << models.status();
  ModelRegistry registry;
  registry.Replace(*std::move(models));
  const auto taken = registry.Find("alpha");
  ASSERT_TRUE(taken.ok());
  registry.Replace({});
  EXPECT_EQ((*taken)->info.name(), "alpha");
  EXPECT_EQ(registry.Find("alpha").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ckn
