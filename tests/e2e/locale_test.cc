// A process whose locale writes 0,5 for 0.5, as programs have that use the libraries; what is read and written stays.
#include <clocale>
#include <cstdlib>
#include <locale>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/serving/access_log.h"
#include "server/serving/metrics.h"
#include "server/training/recipe.h"
#include "tests/e2e/process.h"
#include "tests/testing/prometheus_text.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::ckn::testing::Finished;
using ::ckn::testing::ParsePrometheusText;
using ::ckn::testing::RunProgram;
using ::ckn::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LocaleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Finished made =
        RunProgram({"/usr/bin/localedef", "-i", "de_DE", "-f", "UTF-8", locales_.File("de_DE.UTF-8")});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    setenv("LOCPATH", locales_.path().c_str(), 1);
    ASSERT_NE(std::setlocale(LC_ALL, "de_DE.UTF-8"), nullptr);
    std::locale::global(std::locale("de_DE.UTF-8"));
    ASSERT_EQ(std::to_string(0.5), "0,500000");
    std::ostringstream stream;
    stream << 1234.5;
    ASSERT_EQ(stream.str(), "1.234,5");
  }
  void TearDown() override {
    std::locale::global(std::locale::classic());
    unsetenv("LOCPATH");
  }

  const TempDir locales_;
};

TEST_F(LocaleTest, RecipesAreReadAsEverywhere) {
  const auto recipe = ReadRecipeFile(locales_.Write("r", "layers { patch_size: 3 filters: 1000 sigma: 0.25 }"));
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  EXPECT_EQ(recipe->layers(0).sigma(), 0.25);
  for (const std::string& name : BuiltInRecipeNames()) EXPECT_TRUE(BuiltInRecipe(name).ok()) << name;
}

TEST_F(LocaleTest, MetricsAreReadableByPrometheus) {
  Metrics metrics("test");
  metrics.CountRequest(Method::kClassify, absl::StatusCode::kOk, 0.25);
  for (int i = 0; i < 1234; ++i) metrics.CountImages({}, ImageOutcome::kInvalid, 1);
  metrics.ObserveStage(Stage::kDecode, 1.5);
  const std::string text = metrics.Text();
  const auto samples = ParsePrometheusText(text);
  EXPECT_EQ(samples.at("ckn_stage_duration_seconds_sum{stage=\"decode\"}"), 1.5);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("1,5")), Not(HasSubstr("1.234")), HasSubstr(" 1234\n")));
}

TEST_F(LocaleTest, AccessLinesAreReadableByPrograms) {
  AccessRecord record;
  record.total = 0.0123;
  record.images = 1234;
  EXPECT_EQ(nlohmann::json::parse(AccessJson(record))["total_ms"], 12.3);
  EXPECT_EQ(nlohmann::json::parse(AccessJson(record))["images"], 1234);
  EXPECT_THAT(AccessText(record), AllOf(HasSubstr("12.3"), HasSubstr("1234")));
}

}  // namespace
}  // namespace ckn
