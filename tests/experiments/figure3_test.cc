#include "server/experiments/figure3.h"

#include <Eigen/SVD>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/matrix.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::TempDir;

// Gratings of many directions and frequencies, with noise.
std::string Photograph(unsigned seed, int side) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  const double angle = M_PI * uniform(rng);
  const double frequency = 0.05 + 0.2 * uniform(rng);
  std::string pgm = absl::StrCat("P5 ", side, " ", side, " 255\n");
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const double wave = std::cos(2 * M_PI * frequency * (x * std::cos(angle) + y * std::sin(angle)));
      pgm.push_back(static_cast<char>(static_cast<int>(110 + 70 * wave + 30 * uniform(rng))));
    }
  }
  return pgm;
}

class Figure3Test : public ::testing::Test {
 protected:
  Figure3Test() {
    std::filesystem::create_directory(dir_.File("photographs"));
    for (unsigned i = 0; i < 4; ++i) dir_.Write(absl::StrCat("photographs/", i, ".pgm"), Photograph(i, 40 + 8 * i));
    options_.filters = 10;
    options_.patch_size = 6;
    options_.border = 2;
    options_.learning.pairs = 2000;
    options_.learning.iterations = 30;
  }

  absl::Status Run(const std::string& results, int threads = 2) {
    ThreadPool pool(threads);
    return RunFigure3(options_, dir_.File("photographs"), dir_.File(results), pool, Progress{});
  }
  [[nodiscard]] std::string ReadAll(const std::string& name) const {
    std::ifstream file(dir_.File(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const TempDir dir_;
  Figure3Options options_;
};

TEST_F(Figure3Test, LearnsAndSortsByEta) {
  ASSERT_TRUE(Run("results").ok());
  const Json json = Json::parse(ReadAll("results/figure3.json"));
  EXPECT_EQ(json["photographs"], 4);
  EXPECT_LT(json["objective"], 0.5 * json["objective_start"].get<double>());
  EXPECT_EQ(json["curve"].size(), json["iterations"]);
  const auto eta = json["eta"].get<std::vector<double>>();
  ASSERT_EQ(eta.size(), 10U);
  EXPECT_TRUE(std::is_sorted(eta.rbegin(), eta.rend()));
  EXPECT_GE(eta.back(), 0);
  const std::string npy = ReadAll("results/filters.npy");
  EXPECT_THAT(npy, HasSubstr("(10, 6, 6)"));
  EXPECT_EQ(npy.size(), 128 + 10 * 36 * sizeof(float));
}

TEST_F(Figure3Test, ThreadsDoNotChangeABit) {
  ASSERT_TRUE(Run("one", 1).ok());
  ASSERT_TRUE(Run("three", 3).ok());
  EXPECT_EQ(ReadAll("one/filters.npy"), ReadAll("three/filters.npy"));
}

TEST_F(Figure3Test, FiltersLieInTheSpaceOfTheComponents) {
  options_.components = 5;
  options_.sigma = 0.9;
  ASSERT_TRUE(Run("results").ok());
  const std::string npy = ReadAll("results/filters.npy");
  RowMatrixF filters(10, 36);
  std::memcpy(filters.data(), npy.data() + 128, static_cast<std::size_t>(filters.size()) * sizeof(float));
  const Eigen::VectorXf singular = filters.bdcSvd().singularValues();
  EXPECT_GT(singular[4], 1e-3F * singular[0]);
  EXPECT_LT(singular[5], 1e-5F * singular[0]);
  const Json json = Json::parse(ReadAll("results/figure3.json"));
  EXPECT_EQ(json["components"], 5);
  EXPECT_NEAR(json["sigma"].get<double>(), 0.9, 1e-6);
}

TEST_F(Figure3Test, PhotographsWithoutContrastAreRefused) {
  options_.min_contrast = 0.1;  // the gratings have 0.2
  EXPECT_TRUE(Run("results").ok());
  options_.min_contrast = 0.4;
  const absl::Status status = Run("results");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0 of 10000 patches have pixels with a standard deviation"));
}

TEST_F(Figure3Test, RefusesWhatIsNoPhotograph) {
  dir_.Write("photographs/small.pgm", Photograph(1, 9));
  EXPECT_THAT(std::string(Run("results").message()), HasSubstr("small.pgm: got 9 x 9 pixels, expected at least 10"));
  dir_.Write("photographs/small.pgm", "no picture");
  EXPECT_THAT(std::string(Run("results").message()), HasSubstr("small.pgm: unknown image format"));
  ThreadPool pool(1);
  EXPECT_EQ(RunFigure3(options_, dir_.File("nowhere"), dir_.File("results"), pool, Progress{}).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ckn
