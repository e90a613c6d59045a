#include "server/training/trainer.h"

#include <Eigen/QR>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <span>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"

namespace ckn {
namespace {

// 12x12 pictures of a bar: class 0 horizontal, class 1 vertical, class 2 diagonal; position and noise at random.
Dataset Bars(std::size_t count, int channels, unsigned seed) {
  std::mt19937 rng(seed);
  Dataset data;
  data.title = "bars";
  data.height = data.width = 12;
  data.channels = channels;
  data.class_names = {"horizontal", "vertical", "diagonal"};
  for (std::size_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(i % 3);
    const int position = 3 + static_cast<int>(rng() % 6);
    data.labels.push_back(label);
    for (int y = 0; y < 12; ++y) {
      for (int x = 0; x < 12; ++x) {
        const bool inside = label == 0 ? y == position : label == 1 ? x == position : (x + y) % 12 == position;
        for (int c = 0; c < channels; ++c)
          data.pixels.push_back(static_cast<std::uint8_t>((inside ? 190 : 20) + rng() % 40));
      }
    }
  }
  return data;
}

v1::Recipe PixelRecipe() {
  v1::Recipe recipe;
  recipe.set_name("bars");
  v1::LayerRecipe* first = recipe.add_layers();
  first->set_patch_size(3);
  first->set_filters(8);
  first->set_subsampling(2);
  v1::LayerRecipe* second = recipe.add_layers();
  second->set_patch_size(2);
  second->set_filters(12);
  second->set_output_size(2);
  return recipe;
}

v1::Recipe CombinedRecipe() {
  v1::Recipe recipe;
  recipe.set_name("both");
  *recipe.add_parts() = PixelRecipe();
  v1::Recipe* const gradient = recipe.add_parts();
  *gradient = PixelRecipe();
  gradient->set_name("gradient");
  gradient->mutable_input()->set_map(v1::INPUT_MAP_GRADIENT);
  gradient->mutable_layers(0)->set_patch_size(1);
  return recipe;
}

TrainerOptions QuickOptions() {
  TrainerOptions options;
  options.learning.pairs = 1500;
  options.learning.iterations = 25;
  options.c_log2_min = -4;
  options.c_log2_max = 8;
  return options;
}

absl::StatusOr<Model> TrainBars(const v1::Recipe& recipe, const TrainerOptions& options, int threads = 2,
                                const Progress& progress = {}, int channels = 1) {
  ThreadPool pool(threads);
  const Dataset test = Bars(90, channels, 99);
  return Train(recipe, Bars(240, channels, 1), &test, options, pool, progress);
}

TEST(TrainerTest, LearnsFromPixelsAndRecordsWhatItDid) {
  const absl::StatusOr<Model> model = TrainBars(PixelRecipe(), QuickOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  const v1::Provenance& provenance = model->provenance;
  EXPECT_LE(provenance.test_error_percent(), 5);
  EXPECT_EQ(model->name, "bars");
  EXPECT_EQ(provenance.architecture(), "bars");
  EXPECT_EQ(provenance.test_count(), 90);
  EXPECT_EQ(provenance.train_count(), 240);
  EXPECT_EQ(provenance.dataset_sha256(), DatasetSha256(Bars(240, 1, 1)));
  EXPECT_EQ(provenance.validation(), "5-fold cross-validation");
  ASSERT_EQ(provenance.validation_curve_size(), 13);
  double best = 100;
  for (const v1::ValidationPoint& point : provenance.validation_curve()) best = std::min(best, point.error_percent());
  EXPECT_EQ(provenance.validation_error_percent(), best);
  EXPECT_GT(model->svm.probability_scale, 0);
  EXPECT_EQ(model->residual_quantiles.size(), 240U);
  for (const v1::LayerLearning& learning : model->networks[0].learning) {
    EXPECT_EQ(learning.pairs(), 1500);
    EXPECT_LT(learning.objective(), 0.8 * learning.objective_start());
    EXPECT_NEAR(learning.held_out_objective(), learning.objective(), learning.objective());
  }
  // The model says of the test set what the trainer said.
  const absl::StatusOr<Pipeline> pipeline = Pipeline::Create(*model);
  ASSERT_TRUE(pipeline.ok());
  const Dataset test = Bars(90, 1, 99);
  int errors = 0;
  double ranks = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    std::optional<Novelty> novelty;
    errors += ArgMax(*pipeline->Classify(test.Image(i), &novelty)) != test.labels[i];
    ranks += novelty->rank;
  }
  EXPECT_NEAR(ranks / 90, 0.5, 0.1) << "the test images are like the training images";
  EXPECT_DOUBLE_EQ(provenance.test_error_percent(), 100.0 * errors / 90);
  // Features have unit norm on average over the training set.
  const Dataset train = Bars(240, 1, 1);
  double norm = 0;
  for (std::size_t i = 0; i < train.size(); ++i) {
    const std::vector<float> features = *pipeline->Encode(train.Image(i));
    norm += Eigen::Map<const Eigen::VectorXf>(features.data(), static_cast<Eigen::Index>(features.size())).norm();
  }
  EXPECT_NEAR(norm / 240, 1, 1e-4);
}

TEST(TrainerTest, LearnsFromGradientsOfColourImages) {
  v1::Recipe recipe = PixelRecipe();
  recipe.mutable_input()->set_map(v1::INPUT_MAP_GRADIENT);
  recipe.mutable_layers(0)->set_patch_size(1);
  recipe.mutable_layers(0)->set_filters(12);
  const absl::StatusOr<Model> model = TrainBars(recipe, QuickOptions(), 2, {}, 3);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->networks[0].layers[0].learned);
  EXPECT_EQ(ParameterCount(*model), 2 * 2 * 12 * 12);
  EXPECT_LE(model->provenance.test_error_percent(), 5);
}

TEST(TrainerTest, LearnsFromPixelsOfColourImagesWithMeanSubtraction) {
  const absl::StatusOr<Model> model = TrainBars(PixelRecipe(), QuickOptions(), 2, {}, 3);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->networks[0].layers[0].subtract_patch_mean);
  EXPECT_LE(model->provenance.test_error_percent(), 10);
}

TEST(TrainerTest, SameSeedSameBytesWhateverTheThreads) {
  const absl::StatusOr<Model> one = TrainBars(PixelRecipe(), QuickOptions(), 1);
  const absl::StatusOr<Model> again = TrainBars(PixelRecipe(), QuickOptions(), 1);
  const absl::StatusOr<Model> three = TrainBars(PixelRecipe(), QuickOptions(), 3);
  TrainerOptions other = QuickOptions();
  other.seed = 2;
  const absl::StatusOr<Model> other_seed = TrainBars(PixelRecipe(), other, 1);
  ASSERT_TRUE(one.ok() && again.ok() && three.ok() && other_seed.ok());
  EXPECT_EQ(SerializeModelFile(*one), SerializeModelFile(*again));
  EXPECT_EQ(SerializeModelFile(*one), SerializeModelFile(*three));
  EXPECT_NE(SerializeModelFile(*one), SerializeModelFile(*other_seed));
}

TEST(TrainerTest, RandomInitialisationLearnsToo) {
  TrainerOptions options = QuickOptions();
  options.learning.init = FilterInit::kRandom;
  v1::Recipe recipe = PixelRecipe();
  for (v1::LayerRecipe& layer : *recipe.mutable_layers()) layer.set_sigma(0.7);
  const absl::StatusOr<Model> model = TrainBars(recipe, options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->networks[0].learning[0].initialisation(), "random");
  EXPECT_LE(model->provenance.test_error_percent(), 10);
}

TEST(TrainerTest, FiltersTooFarFromThePatchesAreAnError) {
  TrainerOptions options = QuickOptions();
  options.learning.init = FilterInit::kRandom;
  v1::Recipe recipe = PixelRecipe();
  recipe.mutable_layers(0)->set_sigma(0.1);
  const absl::Status status = TrainBars(recipe, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("sigma = 0.1"));
}

TEST(TrainerTest, HeldOutValidationAndAFixedC) {
  TrainerOptions options = QuickOptions();
  options.held_out = 60;
  absl::StatusOr<Model> model = TrainBars(PixelRecipe(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->provenance.validation(), "60 images held out");
  options.c_log2_min = options.c_log2_max = 3;
  model = TrainBars(PixelRecipe(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->provenance.svm_c(), 8);
  EXPECT_EQ(model->provenance.validation_curve_size(), 0);
  EXPECT_EQ(model->svm.probability_scale, 0);  // nothing to calibrate on
}

class InterruptedTrainerTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".checkpoint";
};

TEST_F(InterruptedTrainerTest, ResumesToTheSameBytes) {
  const absl::StatusOr<Model> straight = TrainBars(PixelRecipe(), QuickOptions());
  ASSERT_TRUE(straight.ok());
  TrainerOptions options = QuickOptions();
  options.checkpoint_path = path_;
  options.resume = true;
  // Stopped while each layer is learned in turn (a report follows k-means), then let go.
  absl::StatusOr<Model> model = absl::UnknownError("");
  int interruptions = 0;
  for (const std::string layer : {"layer 1: k-means", "layer 2: k-means", "never"}) {
    std::atomic<bool> stop{false};
    Progress progress;
    progress.stop = &stop;
    progress.report = [&](const std::string& line) {
      if (line.rfind(layer, 0) == 0) stop = true;
    };
    model = TrainBars(PixelRecipe(), options, 2, progress);
    if (absl::IsCancelled(model.status())) {
      ++interruptions;
      EXPECT_TRUE(std::filesystem::exists(path_));
    }
  }
  EXPECT_EQ(interruptions, 2);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(SerializeModelFile(*model), SerializeModelFile(*straight));
}

TEST_F(InterruptedTrainerTest, ResumesInTheSecondNetworkOfACombination) {
  const absl::StatusOr<Model> straight = TrainBars(CombinedRecipe(), QuickOptions());
  ASSERT_TRUE(straight.ok()) << straight.status();
  TrainerOptions options = QuickOptions();
  options.checkpoint_path = path_;
  options.resume = true;
  std::atomic<bool> stop{false};
  std::vector<std::string> lines;
  Progress progress;
  progress.stop = &stop;
  progress.report = [&](const std::string& line) {
    if (line.rfind("gradient: layer 2: k-means", 0) == 0) stop = true;
  };
  EXPECT_TRUE(absl::IsCancelled(TrainBars(CombinedRecipe(), options, 2, progress).status()));
  progress.stop = nullptr;
  progress.report = [&](const std::string& line) { lines.push_back(line); };
  const absl::StatusOr<Model> model = TrainBars(CombinedRecipe(), options, 2, progress);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(lines.front(), testing::EndsWith(": 3 finished layers"));
  EXPECT_EQ(SerializeModelFile(*model), SerializeModelFile(*straight));
}

TEST_F(InterruptedTrainerTest, RefusesACheckpointOfAnotherRunOrADamagedOne) {
  TrainerOptions options = QuickOptions();
  options.checkpoint_path = path_;
  ASSERT_TRUE(TrainBars(PixelRecipe(), options).ok());
  ASSERT_TRUE(std::filesystem::exists(path_));
  options.resume = true;
  options.seed = 7;
  absl::Status status = TrainBars(PixelRecipe(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("seed 1 "), testing::HasSubstr("seed 7 ")));

  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  status = TrainBars(PixelRecipe(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  std::filesystem::resize_file(path_, 5);
  EXPECT_EQ(TrainBars(PixelRecipe(), options).status().code(), absl::StatusCode::kDataLoss);
}

v1::Recipe SubspaceRecipe() {
  v1::Recipe recipe = PixelRecipe();
  recipe.mutable_layers(1)->set_principal_components(6);
  recipe.mutable_layers(1)->set_pairs_factor(2);
  return recipe;
}

TEST(TrainerTest, LearnsFiltersInTheSpanOfPrincipalComponents) {
  const absl::StatusOr<Model> one = TrainBars(SubspaceRecipe(), QuickOptions(), 1);
  const absl::StatusOr<Model> two = TrainBars(SubspaceRecipe(), QuickOptions(), 2);
  const absl::StatusOr<Model> anywhere = TrainBars(PixelRecipe(), QuickOptions());
  ASSERT_TRUE(one.ok() && two.ok() && anywhere.ok()) << one.status();
  EXPECT_EQ(SerializeModelFile(*one), SerializeModelFile(*two));
  EXPECT_LE(one->provenance.test_error_percent(), 5);

  const v1::LayerLearning& learning = one->networks[0].learning[1];
  EXPECT_EQ(learning.principal_components(), 6);
  EXPECT_EQ(learning.pairs(), 3000);
  EXPECT_EQ(one->networks[0].learning[0].principal_components(), 0);
  EXPECT_LT(learning.objective(), 0.8 * learning.objective_start());
  EXPECT_NEAR(learning.held_out_objective(), learning.objective(), learning.objective());
  const auto rank = [](const Model& model) {
    Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(model.networks[0].layers[1].filters.cast<double>());
    qr.setThreshold(1e-4);
    return qr.rank();
  };
  EXPECT_EQ(rank(*one), 6);
  EXPECT_EQ(rank(*anywhere), 12);
}

TEST(TrainerTest, RefusesMorePairsThanAnyMemoryHolds) {
  v1::Recipe recipe = PixelRecipe();
  recipe.mutable_layers(0)->set_pairs_factor(100);
  TrainerOptions options = QuickOptions();
  options.learning.pairs = 1'000'001;
  const absl::Status status = TrainBars(recipe, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("pairs: got 1000001 and pairs_factor 100, expected at most 100000000 pairs in all"));
}

// Stops in the second layer, goes on, and gets the bytes of a run that was not stopped.
void ExpectSameBytesWhenInterrupted(const v1::Recipe& recipe, TrainerOptions options, const std::string& checkpoint) {
  const absl::StatusOr<Model> straight = TrainBars(recipe, options);
  ASSERT_TRUE(straight.ok()) << straight.status();
  options.checkpoint_path = checkpoint;
  options.resume = true;
  std::atomic<bool> stop{false};
  Progress progress;
  progress.stop = &stop;
  options.learning.on_iteration = [&](int layer, int iteration, double) { stop = layer == 2 && iteration == 11; };
  EXPECT_TRUE(absl::IsCancelled(TrainBars(recipe, options, 2, progress).status()));
  options.learning.on_iteration = nullptr;
  const absl::StatusOr<Model> resumed = TrainBars(recipe, options);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(SerializeModelFile(*resumed), SerializeModelFile(*straight));
}

TEST_F(InterruptedTrainerTest, ResumesInASubspaceToTheSameBytes) {
  ExpectSameBytesWhenInterrupted(SubspaceRecipe(), QuickOptions(), path_);
}

TEST(TrainerTest, LearnsByStochasticGradients) {
  TrainerOptions options = QuickOptions();
  options.learning.method = LearningMethod::kStochastic;
  options.learning.pairs = 5000;  // two batches a block
  options.learning.iterations = 60;
  const absl::StatusOr<Model> one = TrainBars(PixelRecipe(), options, 1);
  const absl::StatusOr<Model> two = TrainBars(PixelRecipe(), options, 2);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status();
  EXPECT_LE(one->provenance.test_error_percent(), 5);
  for (const v1::LayerLearning& learning : one->networks[0].learning) {
    EXPECT_EQ(learning.pairs(), 60 * 2048);
    EXPECT_EQ(learning.iterations(), 60);
    EXPECT_LT(learning.held_out_objective(), 0.8 * learning.objective_start());
  }
  EXPECT_GE(one->networks[0].layers[1].eta.minCoeff(), 0);
  EXPECT_EQ(SerializeModelFile(*one), SerializeModelFile(*two));
}

TEST_F(InterruptedTrainerTest, ResumesStochasticStepsToTheSameBytes) {
  TrainerOptions options = QuickOptions();
  options.learning.method = LearningMethod::kStochastic;
  options.learning.pairs = 5000;
  options.learning.iterations = 30;
  ExpectSameBytesWhenInterrupted(PixelRecipe(), options, path_);
}

TEST(TrainerTest, LearnsByTheNystromProjection) {
  TrainerOptions options = QuickOptions();
  options.learning.method = LearningMethod::kNystrom;
  const absl::StatusOr<Model> model = TrainBars(PixelRecipe(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_LE(model->provenance.test_error_percent(), 5);
  for (std::size_t k = 0; k < model->networks[0].layers.size(); ++k) {
    EXPECT_EQ(model->networks[0].layers[k].projection.rows(), model->networks[0].layers[k].filter_count());
    EXPECT_EQ(model->networks[0].learning[k].initialisation(), "spherical kmeans");
    EXPECT_GT(model->networks[0].learning[k].held_out_objective(), 0);
  }
}

TEST(TrainerTest, ACombinationIsItsPartsSideBySide) {
  const absl::StatusOr<Model> both = TrainBars(CombinedRecipe(), QuickOptions(), 2, {}, 3);
  const absl::StatusOr<Model> first = TrainBars(CombinedRecipe().parts(0), QuickOptions(), 2, {}, 3);
  const absl::StatusOr<Model> second = TrainBars(CombinedRecipe().parts(1), QuickOptions(), 2, {}, 3);
  ASSERT_TRUE(both.ok() && first.ok() && second.ok()) << both.status();
  EXPECT_LE(both->provenance.test_error_percent(), 5);
  EXPECT_EQ(both->name, "both");
  EXPECT_EQ(both->provenance.architecture(), "both");
  ASSERT_EQ(both->networks.size(), 2U);
  EXPECT_EQ(both->networks[1].architecture, "gradient");
  EXPECT_EQ(ParameterCount(*both), ParameterCount(*first) + ParameterCount(*second));
  // Served from a file, an image's features are those of the two models, one behind the other: each network is
  // standardised by itself.
  const std::string file = SerializeModelFile(*both);
  const absl::StatusOr<Model> loaded = ParseModelFile(std::as_bytes(std::span(file)), ModelLimits{});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Dataset test = Bars(20, 3, 5);
  for (std::size_t i = 0; i < test.size(); ++i) {
    std::vector<float> expected = *Pipeline::Create(*first)->Encode(test.Image(i));
    const std::vector<float> rest = *Pipeline::Create(*second)->Encode(test.Image(i));
    expected.insert(expected.end(), rest.begin(), rest.end());
    EXPECT_EQ(*Pipeline::Create(*loaded)->Encode(test.Image(i)), expected);
  }
}

TEST(TrainerTest, LearnsFromWhitenedPatchesAndServesThem) {
  for (const LearningMethod method : {LearningMethod::kProblem4, LearningMethod::kNystrom}) {
    TrainerOptions options = QuickOptions();
    options.learning.method = method;
    v1::Recipe recipe = PixelRecipe();
    recipe.mutable_layers(0)->set_whiten(true);
    const absl::StatusOr<Model> model = TrainBars(recipe, options, 2, {}, 3);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->networks[0].layers[0].whitening.rows(), 27);
    EXPECT_EQ(model->networks[0].layers[1].whitening.size(), 0);
    EXPECT_LE(model->provenance.test_error_percent(), 10);
  }
}

TEST(TrainerTest, RefitChangesTheClassifierOnly) {
  const absl::StatusOr<Model> model = TrainBars(PixelRecipe(), QuickOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  ThreadPool pool(2);
  const Dataset train = Bars(240, 1, 1), test = Bars(90, 1, 99);
  // On the data that it was trained on, nothing changes.
  const absl::StatusOr<Model> same = Refit(model->networks, train, &test, QuickOptions(), pool, {});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(SerializeModelFile(*same), SerializeModelFile(*model));

  // Other classes: "bar lies" against the two others.
  Dataset other = train;
  other.class_names = {"lies", "stands or leans"};
  for (int& label : other.labels) label = label == 0 ? 0 : 1;
  const absl::StatusOr<Model> refitted = Refit(model->networks, other, nullptr, QuickOptions(), pool, {});
  ASSERT_TRUE(refitted.ok()) << refitted.status();
  EXPECT_EQ(refitted->class_names, other.class_names);
  EXPECT_EQ(refitted->networks[0].layers[1].filters, model->networks[0].layers[1].filters);
  const absl::StatusOr<Pipeline> pipeline = Pipeline::Create(*refitted);
  ASSERT_TRUE(pipeline.ok());
  int errors = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    errors += ArgMax(*pipeline->Classify(test.Image(i))) != (test.labels[i] == 0 ? 0 : 1);
  }
  EXPECT_LE(errors, 4);

  // Several models together are a combination.
  const absl::StatusOr<Model> gradient = TrainBars(CombinedRecipe().parts(1), QuickOptions());
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  const absl::StatusOr<Model> trained = TrainBars(CombinedRecipe(), QuickOptions());
  const absl::StatusOr<Model> joined =
      Refit({model->networks[0], gradient->networks[0]}, train, &test, QuickOptions(), pool, {});
  ASSERT_TRUE(trained.ok() && joined.ok()) << joined.status();
  EXPECT_EQ(joined->svm.weights, trained->svm.weights);
  EXPECT_EQ(joined->name, "bars+gradient");

  Dataset small = train;
  small.height = 6;
  small.width = 24;
  EXPECT_THAT(std::string(Refit(model->networks, small, nullptr, QuickOptions(), pool, {}).status().message()),
              testing::HasSubstr("take images of 12x12, the data have 6x24"));
}

TEST(TrainerTest, AFoldIsTheImagesThatItNames) {
  ThreadPool pool(2);
  Dataset train = Bars(240, 1, 1);
  TrainerOptions options = QuickOptions();
  options.fold = 1;
  EXPECT_THAT(std::string(Train(PixelRecipe(), train, nullptr, options, pool, {}).status().message()),
              testing::HasSubstr("fold: got 1, but the data set has none"));
  train.folds.resize(2);
  for (std::size_t i = 60; i < 150; ++i) train.folds[1].push_back(i);
  const absl::StatusOr<Model> model = Train(PixelRecipe(), train, nullptr, options, pool, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->provenance.train_count(), 90);
  // The same as from a data set that has these images only.
  Dataset part = Bars(150, 1, 1);
  part.labels.erase(part.labels.begin(), part.labels.begin() + 60);
  part.pixels.erase(part.pixels.begin(), part.pixels.begin() + 60 * 144);
  options.fold = -1;
  const absl::StatusOr<Model> same = Train(PixelRecipe(), part, nullptr, options, pool, {});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(model->svm.weights, same->svm.weights);
}

TEST(TrainerTest, RefusesWhatCannotWork) {
  const auto refusal = [](auto change) {
    TrainerOptions options = QuickOptions();
    change(options);
    return std::string(TrainBars(PixelRecipe(), options).status().message());
  };
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.train_size = 241; }),
              testing::HasSubstr("got 241, expected at most the 240 images"));
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.held_out = 240; }),
              testing::HasSubstr("got 240, expected fewer than the 240 training images"));
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.train_size = 9; }),
              testing::HasSubstr("3 of the 9 training images for 5-fold cross-validation, expected at least 5"));
}

TEST(BalancedSubsetTest, TakesAnEqualNumberOfEachClass) {
  Dataset data = Bars(300, 1, 1);
  for (std::size_t i = 0; i < 270; ++i) data.labels[i] = 0;  // classes 1 and 2 keep 10 images each
  const absl::StatusOr<std::vector<std::size_t>> rows = BalancedSubset(data, 60, 1);
  ASSERT_TRUE(rows.ok());
  std::vector<int> count(3);
  for (const std::size_t row : *rows) ++count[data.labels[row]];
  EXPECT_THAT(count, testing::ElementsAre(40, 10, 10));
  EXPECT_TRUE(std::is_sorted(rows->begin(), rows->end()));
  EXPECT_NE(*rows, *BalancedSubset(data, 60, 2));
}

TEST(OrderForHoldOutTest, TakesTheLastOfEachClassEvenWhenSorted) {
  const std::vector<int> labels = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_THAT(OrderForHoldOut(labels, 2, 5), testing::ElementsAre(0, 1, 2, 6, 7, 3, 4, 5, 8, 9));
}

}  // namespace
}  // namespace ckn
