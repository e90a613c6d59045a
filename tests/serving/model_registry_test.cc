#include "server/serving/model_registry.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::ckn::testing::TempDir;
using ::ckn::testing::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::shared_ptr<const ServedModel> Served(const std::string& name, std::int64_t version) {
  const TempDir folder;
  EXPECT_TRUE(WriteModelFile(TinyModel({.name = name}), folder.File("a.ckn")).ok());
  const auto model = LoadServedModel(folder.File("a.ckn"), version);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

ModelSet SetOf(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& models) {
  ModelSet set;
  for (const auto& [name, versions] : models) {
    for (const std::int64_t version : versions) set[name][version] = Served(name, version);
  }
  return set;
}

TEST(ModelRegistryTest, EmptyNameMeansTheOnlyModel) {
  ModelRegistry registry;
  EXPECT_EQ(registry.Find("alpha").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(registry.Find("").status().code(), absl::StatusCode::kNotFound);
  registry.Replace(SetOf({{"alpha", {1}}}));
  ASSERT_TRUE(registry.Find("").ok());
  EXPECT_EQ((*registry.Find(""))->info.name(), "alpha");

  registry.Replace(SetOf({{"alpha", {1}}, {"beta", {1}}}));
  const auto ambiguous = registry.Find("");
  EXPECT_EQ(ambiguous.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(ambiguous.status()), AllOf(HasSubstr("alpha"), HasSubstr("beta")));
  EXPECT_EQ((*registry.Find("beta"))->info.name(), "beta");
}

TEST(LoadServedModelTest, ThePrecisionIsTheOneAskedFor) {
  const TempDir folder;
  ASSERT_TRUE(WriteModelFile(TinyModel({.name = "alpha"}), folder.File("a.ckn")).ok());
  const auto exact = LoadServedModel(folder.File("a.ckn"), 1);
  const auto rounded = LoadServedModel(folder.File("a.ckn"), 1, {}, Precision::kBfloat16);
  ASSERT_TRUE(exact.ok() && rounded.ok());
  EXPECT_EQ((*exact)->pipeline.precision(), Precision::kFloat32);
  EXPECT_EQ((*rounded)->pipeline.precision(), Precision::kBfloat16);
}

TEST(ModelRegistryTest, EmptyVersionMeansTheLatest) {
  ModelRegistry registry;
  registry.Replace(SetOf({{"alpha", {2, 10}}}));
  EXPECT_EQ((*registry.Find("alpha"))->info.version(), "10");
  EXPECT_EQ((*registry.Find("alpha", "2"))->info.version(), "2");
  for (const char* const version : {"1", "02", "2 ", "latest"}) {
    const auto unknown = registry.Find("alpha", version);
    EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(Message(unknown.status()), HasSubstr("loaded: 2, 10"));
  }
}

TEST(ModelRegistryTest, UnknownNameIsQuotedSafely) {
  ModelRegistry registry;
  registry.Replace(SetOf({{"alpha", {1}}}));
  const auto unknown = registry.Find("no\nsuch" + std::string(1000, 'x'));
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(unknown.status()), AllOf(HasSubstr("no\\x0asuch"), HasSubstr("\"alpha\"")));
  EXPECT_LT(unknown.status().message().size(), 200U);
}

TEST(ModelRegistryTest, ReplacingLeavesTakenModelsAlone) {
  ModelRegistry registry;
  registry.Replace(SetOf({{"alpha", {1}}}));
  const auto taken = registry.Find("alpha");
  ASSERT_TRUE(taken.ok());
  registry.Replace({});
  EXPECT_EQ((*taken)->info.name(), "alpha");
  EXPECT_EQ(registry.Find("alpha").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ckn
