#include "server/serving/model_loader.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/prometheus_text.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::ckn::testing::ParsePrometheusText;
using ::ckn::testing::TempDir;
using ::ckn::testing::TinyModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class ModelLoaderTest : public ::testing::Test {
 protected:
  // In place of what is there, at once, as a good deployment does.
  void Put(const std::string& file, const Model& model) {
    std::filesystem::create_directories(std::filesystem::path(folder_.File(file)).parent_path());
    const absl::Status status = WriteModelFile(model, folder_.File(file));
    ASSERT_TRUE(status.ok()) << status;
  }
  void Put(const std::string& file, const std::string& name, std::uint64_t seed = 1) {
    Put(file, TinyModel({.name = name, .seed = seed}));
  }
  static std::string Broken() {
    std::string bytes = SerializeModelFile(TinyModel());
    bytes[bytes.size() / 2] ^= 1;
    return bytes;
  }
  ModelLoader::Changes Reload() {
    auto changes = loader_.Reload();
    EXPECT_TRUE(changes.ok()) << changes.status();
    return *changes;
  }
  std::string Sha256(const std::string& name) { return (*registry_.Find(name))->info.sha256(); }
  double Sample(const std::string& name) { return ParsePrometheusText(metrics_.Text()).at(name); }

  const TempDir folder_;
  ModelRegistry registry_;
  Metrics metrics_{"test"};
  ModelLoader loader_{folder_.path(), registry_, metrics_};
};

TEST_F(ModelLoaderTest, LoadsEveryModelFileUnderTheNameInIt) {
  Put("one.ckn", "beta");
  Put("two.ckn", "alpha");
  folder_.Write("notes.txt", "not a model");
  ASSERT_TRUE(loader_.LoadAll().ok());
  const auto contents = registry_.Snapshot();
  ASSERT_EQ(contents->models.size(), 2U);
  EXPECT_EQ(contents->models.begin()->first, "alpha");
  const ServedModel& beta = **registry_.Find("beta");
  EXPECT_EQ(beta.path, folder_.File("one.ckn"));
  EXPECT_EQ(beta.info.name(), "beta");
  EXPECT_EQ(beta.info.version(), "1");
  EXPECT_EQ(beta.info.height(), 8);
  EXPECT_EQ(beta.info.width(), 8);
  EXPECT_EQ(beta.info.channels(), 1);
  EXPECT_EQ(beta.info.features(), 3 * 3 * 4);
  EXPECT_EQ(beta.info.class_names_size(), 3);
  EXPECT_EQ(beta.info.sha256().size(), 64U);
  EXPECT_EQ(beta.info.validation_error_percent(), 12.5);
  EXPECT_FALSE(beta.info.has_test_error_percent());
  EXPECT_EQ(beta.longest_class_name, std::string("class 0").size());
  EXPECT_EQ(Sample("ckn_models_loaded"), 2);
  EXPECT_EQ(Sample("ckn_model_loads_total{outcome=\"ok\"}"), 2);
}

TEST_F(ModelLoaderTest, AtTheStartABrokenFileIsNamedWithTheReason) {
  Put("good.ckn", "good");
  folder_.Write("bad.ckn", Broken());
  const absl::Status status = loader_.LoadAll();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("bad.ckn"), HasSubstr("checksum")));
}

TEST_F(ModelLoaderTest, AtTheStartTwoFilesWithOneModelNameAreBothNamed) {
  Put("a.ckn", "same");
  Put("b.ckn", "same");
  const absl::Status status = loader_.LoadAll();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("same"), HasSubstr("a.ckn"), HasSubstr("b.ckn")));
}

TEST_F(ModelLoaderTest, AModelThatCannotComputeIsRefused) {
  Model model = TinyModel();
  // Too large for the format's reader, so written behind its back.
  model.svm.weights.setConstant(3e38F);
  folder_.Write("overflow.ckn", SerializeModelFile(model));
  EXPECT_THAT(Message(loader_.LoadAll()), AllOf(HasSubstr("overflow.ckn"), HasSubstr("svm.weights[0]: got 3e+38")));
}

TEST_F(ModelLoaderTest, AFolderOfVersionsMustHaveTheModelsName) {
  Put("digits/2/model.ckn", "digits");
  ASSERT_TRUE(loader_.LoadAll().ok());
  EXPECT_EQ((*registry_.Find("digits"))->info.version(), "2");
  Put("digits/3/model.ckn", "clothes");
  EXPECT_THAT(Reload().failed.front().reason,
              AllOf(HasSubstr("digits/3/model.ckn"), HasSubstr("named \"clothes\", expected \"digits\"")));
}

TEST_F(ModelLoaderTest, NewChangedAndRemovedFilesAreFollowed) {
  Put("a.ckn", "alpha");
  Put("b.ckn", "beta");
  ASSERT_TRUE(loader_.LoadAll().ok());
  EXPECT_THAT(Reload().loaded, IsEmpty());
  const auto kept = *registry_.Find("beta");
  const std::string before = Sha256("alpha");

  Put("a.ckn", "alpha", 2);
  Put("c.ckn", "gamma");
  const ModelLoader::Changes changed = Reload();
  EXPECT_THAT(changed.loaded, ElementsAre("\"alpha\" version 1", "\"gamma\" version 1"));
  EXPECT_THAT(changed.removed, IsEmpty());
  EXPECT_NE(Sha256("alpha"), before);
  EXPECT_EQ(*registry_.Find("beta"), kept) << "what has not changed is not read again";

  std::filesystem::remove(folder_.File("b.ckn"));
  EXPECT_THAT(Reload().removed, ElementsAre("\"beta\" version 1"));
  EXPECT_EQ(registry_.Find("beta").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Sample("ckn_models_loaded"), 2);
}

TEST_F(ModelLoaderTest, ABadFileLeavesTheOldModelServing) {
  Put("a.ckn", "alpha");
  ASSERT_TRUE(loader_.LoadAll().ok());
  const auto kept = *registry_.Find("alpha");
  folder_.Write("a.ckn", Broken());
  folder_.Write("new.ckn", "half a co");
  const ModelLoader::Changes changes = Reload();
  EXPECT_EQ(*registry_.Find("alpha"), kept);
  ASSERT_EQ(changes.failed.size(), 2U);
  EXPECT_THAT(changes.failed[0].reason, AllOf(HasSubstr("a.ckn"), HasSubstr("checksum")));
  EXPECT_EQ(changes.failed[1].name, "new");
  EXPECT_EQ(registry_.Snapshot()->failed.size(), 2U);
  EXPECT_EQ(Sample("ckn_models_failed"), 2);

  // The bad files are not read again as long as they are the same.
  const double loads = Sample("ckn_model_loads_total{outcome=\"failed\"}");
  EXPECT_EQ(Reload().failed.size(), 2U);
  EXPECT_EQ(Sample("ckn_model_loads_total{outcome=\"failed\"}"), loads);

  Put("a.ckn", "alpha", 2);
  Put("new.ckn", "fresh");
  EXPECT_THAT(Reload().failed, IsEmpty());
  EXPECT_NE(*registry_.Find("alpha"), kept);
  EXPECT_TRUE(registry_.Find("fresh").ok());
  EXPECT_EQ(Sample("ckn_models_failed"), 0);
}

TEST_F(ModelLoaderTest, ASecondFileOfAModelDoesNotReplaceTheFirst) {
  Put("b.ckn", "alpha");
  ASSERT_TRUE(loader_.LoadAll().ok());
  const auto kept = *registry_.Find("alpha");
  Put("a.ckn", "alpha", 2);  // comes first in the order of names
  EXPECT_THAT(Reload().failed.front().reason, AllOf(HasSubstr("a.ckn"), HasSubstr("and so does"), HasSubstr("b.ckn")));
  EXPECT_EQ(*registry_.Find("alpha"), kept);
  std::filesystem::remove(folder_.File("b.ckn"));
  EXPECT_THAT(Reload().failed, IsEmpty());
  EXPECT_NE(*registry_.Find("alpha"), kept);
}

TEST_F(ModelLoaderTest, AFolderThatHasGoneChangesNothing) {
  Put("a.ckn", "alpha");
  ASSERT_TRUE(loader_.LoadAll().ok());
  std::filesystem::remove(folder_.File("a.ckn"));
  EXPECT_EQ(loader_.Reload().status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(registry_.Find("alpha").ok());
}

TEST_F(ModelLoaderTest, AnUnloadedModelStaysAwayUntilItIsLoaded) {
  Put("a.ckn", "alpha");
  Put("b.ckn", "beta");
  ASSERT_TRUE(loader_.LoadAll().ok());
  EXPECT_TRUE(loader_.Unload("alpha").ok());
  EXPECT_FALSE(registry_.Find("alpha").ok());
  EXPECT_THAT(Reload().loaded, IsEmpty());
  EXPECT_FALSE(registry_.Find("alpha").ok());
  EXPECT_EQ(loader_.Unload("alpha").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(loader_.Load("alpha").ok());
  EXPECT_TRUE(registry_.Find("alpha").ok());
  EXPECT_THAT(Message(loader_.Load("gamma")), HasSubstr("no file of the models folder holds it"));
  folder_.Write("b.ckn", Broken());
  EXPECT_THAT(Message(loader_.Load("beta")), HasSubstr("checksum"));
  EXPECT_TRUE(registry_.Find("beta").ok());
}

TEST_F(ModelLoaderTest, LoadTellsOfADamagedFileWhateverItsName) {
  Put("a.ckn", "beta");
  ASSERT_TRUE(loader_.LoadAll().ok());
  folder_.Write("a.ckn", Broken());
  EXPECT_THAT(Message(loader_.Load("beta")), HasSubstr("checksum"));
  EXPECT_TRUE(registry_.Find("beta").ok());
}

TEST_F(ModelLoaderTest, UnloadedModelsTakeNoMemoryAndAreNotRead) {
  Put("digits/1/m.ckn", "digits");
  Put("b.ckn", "beta");
  ASSERT_TRUE(loader_.LoadAll().ok());
  const std::weak_ptr<const ServedModel> digits = *registry_.Find("digits");
  ASSERT_TRUE(loader_.Unload("digits").ok());
  EXPECT_TRUE(digits.expired());
  Put("digits/2/m.ckn", "digits");
  const double loads = Sample("ckn_model_loads_total{outcome=\"ok\"}");
  EXPECT_THAT(Reload().loaded, IsEmpty());
  EXPECT_EQ(Sample("ckn_model_loads_total{outcome=\"ok\"}"), loads);
  ASSERT_TRUE(loader_.Load("digits").ok());
  EXPECT_EQ((*registry_.Find("digits"))->info.version(), "2");
}

TEST_F(ModelLoaderTest, WhatLiesInAnUnusableFolderIsAsItWas) {
  Put("digits/1/m.ckn", "digits");
  Put("b.ckn", "beta");
  ASSERT_TRUE(loader_.LoadAll().ok());
  const auto kept = *registry_.Find("digits");
  Put("digits/1/n.ckn", "digits");
  Put("b.ckn", "beta", 2);
  const ModelLoader::Changes changes = Reload();
  EXPECT_THAT(changes.loaded, ElementsAre("\"beta\" version 1")) << "the others are followed";
  EXPECT_THAT(changes.removed, IsEmpty());
  EXPECT_EQ(changes.failed.front().name, "digits");
  EXPECT_EQ(*registry_.Find("digits"), kept);
  EXPECT_EQ(Sample("ckn_models_failed"), 1);
}

TEST_F(ModelLoaderTest, AFolderThatIsGoneCountsAsFailedUntilItIsBack) {
  Put("a.ckn", "alpha");
  ASSERT_TRUE(loader_.LoadAll().ok());
  const std::string away = folder_.path() + "-away";
  std::filesystem::rename(folder_.path(), away);
  EXPECT_FALSE(loader_.Reload().ok());
  EXPECT_EQ(Sample("ckn_models_failed"), 1);
  EXPECT_TRUE(registry_.Find("alpha").ok());
  std::filesystem::rename(away, folder_.path());
  EXPECT_TRUE(loader_.Reload().ok());
  EXPECT_EQ(Sample("ckn_models_failed"), 0);
}

TEST_F(ModelLoaderTest, WhatMayPassIsTriedAgain) {
  Put("a.ckn", "alpha");
  ASSERT_TRUE(loader_.LoadAll().ok());
  std::filesystem::create_directory(folder_.File("elsewhere"));
  const std::string target = folder_.File("elsewhere/file");
  ASSERT_TRUE(WriteModelFile(TinyModel({.name = "beta"}), target).ok());
  std::filesystem::create_symlink(target, folder_.File("b.ckn"));
  EXPECT_THAT(Reload().loaded, ElementsAre("\"beta\" version 1"));
  // A change of the permissions is a change of the file.
  const FileIdentity before = ScanModelFolder(folder_.path())->files[1].identity;
  std::filesystem::permissions(target, std::filesystem::perms::owner_read);
  EXPECT_NE(ScanModelFolder(folder_.path())->files[1].identity, before);
}

TEST_F(ModelLoaderTest, CallsNeverSeeAGap) {
  Put("a.ckn", "alpha");
  ASSERT_TRUE(loader_.LoadAll().ok());
  std::atomic<bool> done{false};
  std::atomic<int> missing{0}, found{0};
  std::thread caller([&] {
    while (!done.load()) ++(registry_.Find("alpha").ok() ? found : missing);
  });
  for (std::uint64_t i = 0; i < 50; ++i) {
    Put("a.ckn", "alpha", i);
    Reload();
  }
  done.store(true);
  caller.join();
  EXPECT_EQ(missing.load(), 0);
  EXPECT_GT(found.load(), 0);
}

}  // namespace
}  // namespace ckn
