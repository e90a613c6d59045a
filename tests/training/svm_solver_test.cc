#include "server/training/svm_solver.h"

#include <linear.h>

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/training/cholesky.h"

namespace ckn {
namespace {

struct Problem {
  RowMatrixF x;  // last column 1
  std::vector<int> labels;
  int classes;
};

// Overlapping Gaussian clouds, one a class; average norm near 1 like standardised features.
Problem Clouds(Eigen::Index n, Eigen::Index d, int classes, float spread, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  RowMatrixF centres(classes, d);
  for (Eigen::Index i = 0; i < centres.size(); ++i) centres.data()[i] = normal(rng) / std::sqrt(static_cast<float>(d));
  Problem problem{RowMatrixF(n, d + 1), {}, classes};
  for (Eigen::Index i = 0; i < n; ++i) {
    problem.labels.push_back(static_cast<int>(rng() % classes));
    for (Eigen::Index j = 0; j < d; ++j) {
      problem.x(i, j) = centres(problem.labels.back(), j) + spread * normal(rng) / std::sqrt(static_cast<float>(d));
    }
    problem.x(i, d) = 1;
  }
  return problem;
}

// P(v) for one class in double precision, straight from its definition.
double Objective(const Problem& problem, int k, double c, const LinearSvm& svm) {
  double value =
      0.5 * (svm.weights.row(k).cast<double>().squaredNorm() + std::pow(static_cast<double>(svm.bias[k]), 2));
  for (Eigen::Index i = 0; i < problem.x.rows(); ++i) {
    const double margin =
        problem.x.row(i).head(problem.x.cols() - 1).cast<double>().dot(svm.weights.row(k).cast<double>()) + svm.bias[k];
    const double xi = 1 - (problem.labels[i] == k ? margin : -margin);
    if (xi > 0) value += c * xi * xi;
  }
  return value;
}

// The same binary problem by LIBLINEAR's trust-region Newton method, to high accuracy.
LinearSvm Liblinear(const Problem& problem, double c) {
  const Eigen::Index n = problem.x.rows(), d = problem.x.cols();
  LinearSvm svm;
  svm.weights.resize(problem.classes, d - 1);
  svm.bias.resize(problem.classes);
  std::vector<std::vector<feature_node>> nodes(n);
  std::vector<feature_node*> rows(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < d; ++j) nodes[i].push_back({static_cast<int>(j + 1), problem.x(i, j)});
    nodes[i].push_back({-1, 0});
    rows[i] = nodes[i].data();
  }
  set_print_string_function([](const char*) {});
  for (int k = 0; k < problem.classes; ++k) {
    std::vector<double> y(n);
    for (Eigen::Index i = 0; i < n; ++i) y[i] = problem.labels[i] == k ? 1 : -1;
    struct problem data = {};
    data.l = static_cast<int>(n);
    data.n = static_cast<int>(d);
    data.y = y.data();
    data.x = rows.data();
    data.bias = -1;  // the column of ones is already there
    parameter settings = {};
    settings.solver_type = L2R_L2LOSS_SVC;
    settings.eps = 1e-9;
    settings.C = c;
    model* trained = train(&data, &settings);
    const double sign = trained->label[0] == 1 ? 1 : -1;
    for (Eigen::Index j = 0; j + 1 < d; ++j) svm.weights(k, j) = static_cast<float>(sign * trained->w[j]);
    svm.bias[k] = static_cast<float>(sign * trained->w[d - 1]);
    free_and_destroy_model(&trained);
  }
  return svm;
}

class SvmSolverTest : public ::testing::TestWithParam<SvmSolver> {
 protected:
  static std::vector<SvmPathPoint> Solve(const Problem& problem, const std::vector<double>& c_path, int threads = 2,
                                         SvmStart start = {}, double gap = 1e-7);
  static void ExpectMatchesLiblinear(const Problem& problem, const std::vector<double>& c_path);
};

INSTANTIATE_TEST_SUITE_P(Solvers, SvmSolverTest,
                         ::testing::Values(SvmSolver::kAutomatic, SvmSolver::kJoint, SvmSolver::kBinary),
                         [](const auto& solver) {
                           return solver.param == SvmSolver::kAutomatic ? "Automatic"
                                  : solver.param == SvmSolver::kJoint   ? "Joint"
                                                                        : "Binary";
                         });

std::vector<SvmPathPoint> SvmSolverTest::Solve(const Problem& problem, const std::vector<double>& c_path, int threads,
                                               SvmStart start, double gap) {
  ThreadPool pool(threads);
  SvmOptions options;
  options.solver = GetParam();
  options.relative_gap = gap;
  absl::StatusOr<SvmPath> path =
      TrainSvmPath(problem.x, problem.labels, problem.classes, c_path, options, std::move(start), pool, Progress{});
  EXPECT_TRUE(path.ok()) << path.status();
  return std::move(path->points);
}

void SvmSolverTest::ExpectMatchesLiblinear(const Problem& problem, const std::vector<double>& c_path) {
  for (const SvmPathPoint& point : Solve(problem, c_path)) {
    const LinearSvm oracle = Liblinear(problem, point.c);
    for (int k = 0; k < problem.classes; ++k) {
      const double ours = Objective(problem, k, point.c, point.svm);
      const double theirs = Objective(problem, k, point.c, oracle);
      EXPECT_NEAR(ours, theirs, 1e-5 * theirs) << "C " << point.c << " class " << k;
      // The report says the truth: the objective, and a gap no smaller than the distance to the best known point.
      EXPECT_NEAR(point.reports[k].objective, ours, 1e-5 * ours);
      EXPECT_GE(point.reports[k].gap, point.reports[k].objective - theirs - 2e-6 * theirs);
    }
  }
}

TEST_P(SvmSolverTest, MatchesLiblinearWhenRowsAreMany) {
  ExpectMatchesLiblinear(Clouds(600, 20, 3, 1.0F, 1), {0x1p-15, 0x1p-8, 0.125, 1, 16, 256});
}

TEST_P(SvmSolverTest, MatchesLiblinearWhenColumnsAreMany) {  // the row-space form
  ExpectMatchesLiblinear(Clouds(60, 200, 2, 2.0F, 2), {0x1p-10, 0.125, 4, 64});
}

TEST_P(SvmSolverTest, MatchesLiblinearWhenFewRowsViolateTheMargin) {  // the violators' factor
  ExpectMatchesLiblinear(Clouds(500, 300, 3, 1.0F, 10), {0x1p-6, 0.25, 1, 4, 16});
}

TEST_P(SvmSolverTest, ReachesTheStatedGapWhenFewRowsViolateTheMargin) {
  std::vector<double> c_path;
  // Far beyond any use, only the other solver gets there.
  const int last = GetParam() == SvmSolver::kJoint ? 10 : 18;
  for (int i = -3; i <= last; ++i) c_path.push_back(std::exp2(i));
  for (const SvmPathPoint& point : Solve(Clouds(500, 300, 3, 1.0F, 11), c_path, 2, {}, 1e-5)) {
    for (const SvmReport& report : point.reports) EXPECT_LE(report.gap, 1.01e-5 * report.objective) << point.c;
  }
}

TEST_P(SvmSolverTest, MatchesLiblinearWithEqualRows) {
  Problem problem = Clouds(40, 90, 2, 1.5F, 3);
  for (Eigen::Index i = 1; i < 20; ++i) {
    problem.x.row(i) = problem.x.row(0);
    problem.labels[i] = problem.labels[0];
  }
  ExpectMatchesLiblinear(problem, {0.5, 8});
}

TEST_P(SvmSolverTest, ReachesTheStatedGapAlongTheWholePath) {
  std::vector<double> c_path;
  for (int i = -15; i <= 15; ++i) c_path.push_back(std::exp2(i));
  const Problem problem = Clouds(800, 40, 4, 1.2F, 4);
  for (const SvmPathPoint& point : Solve(problem, c_path, 2, {}, 1e-5)) {
    for (const SvmReport& report : point.reports) EXPECT_LE(report.gap, 1e-4 * report.objective) << point.c;
  }
}

TEST_P(SvmSolverTest, ReachesTheStatedGapWhenClassesOverlap) {
  // Far from the minimum the gap rises from step to step while the objective falls.
  const Problem problem = Clouds(3000, 60, 4, 3.0F, 8);
  for (const SvmPathPoint& point : Solve(problem, {0x1p-10, 1, 0x1p8, 0x1p15}, 2, {}, 1e-5)) {
    for (const SvmReport& report : point.reports) EXPECT_LE(report.gap, 1.01e-5 * report.objective) << point.c;
  }
}

TEST_P(SvmSolverTest, TheStartChangesTheWorkNotTheResult) {
  const Problem problem = Clouds(500, 30, 3, 1.0F, 5);
  const std::vector<SvmPathPoint> cold = Solve(problem, {8});
  const std::vector<SvmPathPoint> path = Solve(problem, {0.5, 2, 8});
  const std::vector<SvmPathPoint> warm = Solve(problem, {8}, 2, SvmStart{.svm = &cold[0].svm});
  for (int k = 0; k < problem.classes; ++k) {
    const double expected = Objective(problem, k, 8, cold[0].svm);
    EXPECT_NEAR(Objective(problem, k, 8, path[2].svm), expected, 1e-6 * expected);
    EXPECT_NEAR(Objective(problem, k, 8, warm[0].svm), expected, 1e-6 * expected);
    EXPECT_LE(warm[0].reports[k].newton_iterations, 2);
  }
}

TEST_P(SvmSolverTest, TheGramOfOtherRowsChangesTheWorkNotTheResult) {
  const Problem problem = Clouds(900, 40, 3, 1.0F, 12);
  constexpr Eigen::Index kOthers = 300;
  Problem others{problem.x.topRows(kOthers), problem.labels, 3};
  others.labels.resize(kOthers);
  ThreadPool pool(2);
  const double c[] = {8};
  absl::StatusOr<SvmPath> path =
      TrainSvmPath(others.x, others.labels, 3, c, SvmOptions{}, SvmStart{}, pool, Progress{});
  ASSERT_TRUE(path.ok()) << path.status();
  ASSERT_EQ(path->gram.rows(), problem.x.cols());
  EXPECT_EQ(path->rows, kOthers);
  const std::vector<SvmPathPoint> own = Solve(problem, {8});
  const std::vector<SvmPathPoint> given = Solve(problem, {8}, 2, SvmStart{nullptr, std::move(path->gram), path->rows});
  for (int k = 0; k < problem.classes; ++k) {
    const double expected = Objective(problem, k, 8, own[0].svm);
    EXPECT_NEAR(Objective(problem, k, 8, given[0].svm), expected, 1e-6 * expected);
  }
  // It was taken, by the one that takes it.
  EXPECT_EQ(given[0].svm.weights != own[0].svm.weights, GetParam() == SvmSolver::kJoint);
}

TEST_P(SvmSolverTest, ThreadsDoNotChangeABit) {
  const Problem problem = Clouds(700, 50, 5, 1.0F, 6);
  const std::vector<SvmPathPoint> one = Solve(problem, {0.25, 4}, 1);
  const std::vector<SvmPathPoint> three = Solve(problem, {0.25, 4}, 3);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].svm.weights, three[i].svm.weights);
    EXPECT_EQ(one[i].svm.bias, three[i].svm.bias);
  }
}

TEST_P(SvmSolverTest, StopsOnRequest) {
  const Problem problem = Clouds(100, 10, 2, 1.0F, 7);
  const std::atomic<bool> stop{true};
  Progress progress;
  progress.stop = &stop;
  ThreadPool pool(1);
  const double c[] = {1};
  EXPECT_EQ(TrainSvmPath(problem.x, problem.labels, 2, c, SvmOptions{}, SvmStart{}, pool, progress).status().code(),
            absl::StatusCode::kCancelled);
}

TEST_P(SvmSolverTest, TellsEachPointInOrder) {
  const Problem problem = Clouds(300, 10, 3, 1.0F, 9);
  ThreadPool pool(2);
  SvmOptions options;
  options.solver = GetParam();
  const double c_path[] = {0.25, 1, 4, 16};
  std::vector<double> told;
  const auto path = TrainSvmPath(problem.x, problem.labels, 3, c_path, options, SvmStart{}, pool, Progress{},
                                 [&told](const SvmPathPoint& point) {
                                   told.push_back(point.c);
                                   return point.c < 4;
                                 });
  ASSERT_TRUE(path.ok());
  if (GetParam() != SvmSolver::kBinary) {
    EXPECT_THAT(told, ::testing::ElementsAre(0.25, 1, 4));
    EXPECT_EQ(path->points.size(), 3U);
  } else {
    EXPECT_THAT(told, ::testing::ElementsAre(0.25, 1, 4, 16));
    EXPECT_EQ(path->points.size(), 4U);
    EXPECT_EQ(path->points.back().solver, SvmSolver::kBinary);
  }
}

TEST(CholeskyTest, FactorsAndSolvesAcrossBlockBorders) {
  for (const Eigen::Index n : {1, 5, 191, 192, 193, 450}) {
    std::mt19937 rng(static_cast<unsigned>(n));
    std::normal_distribution<float> normal;
    RowMatrixF rows(n + 20, n);
    for (Eigen::Index i = 0; i < rows.size(); ++i) rows.data()[i] = normal(rng);
    RowMatrixF a = RowMatrixF::Zero(n, n);
    AddGram(rows.data(), rows.rows(), n, 1, a);
    a.diagonal().array() += 1;
    const RowMatrixD full = RowMatrixF(a.selfadjointView<Eigen::Lower>()).cast<double>();
    EXPECT_LT((full - rows.cast<double>().transpose() * rows.cast<double>() - RowMatrixD::Identity(n, n))
                  .cwiseAbs()
                  .maxCoeff(),
              1e-3);
    ASSERT_TRUE(CholeskyInPlace(a));
    const Eigen::VectorXd expected = Eigen::VectorXd::LinSpaced(n, -1, 1);
    Eigen::VectorXf b = (full * expected).cast<float>();
    CholeskySolve(a, b);
    EXPECT_LT((b.cast<double>() - expected).cwiseAbs().maxCoeff(), 2e-2) << n;

    // A pool changes nothing; many columns are solved as one is.
    RowMatrixF shared = RowMatrixF::Zero(n, n);
    AddGram(rows.data(), rows.rows(), n, 1, shared);
    shared.diagonal().array() += 1;
    ThreadPool pool(3);
    ASSERT_TRUE(CholeskyInPlace(shared, &pool));
    EXPECT_EQ(RowMatrixF(shared.triangularView<Eigen::Lower>()), RowMatrixF(a.triangularView<Eigen::Lower>()));
    const Eigen::VectorXd other = Eigen::VectorXd::LinSpaced(n, 2, 3);
    RowMatrixF columns(n, 2);
    columns.col(0) = (full * expected).cast<float>();
    columns.col(1) = (full * other).cast<float>();
    CholeskySolve(a, columns, pool);
    EXPECT_LT((columns.col(0).cast<double>() - expected).cwiseAbs().maxCoeff(), 2e-2) << n;
    EXPECT_LT((columns.col(1).cast<double>() - other).cwiseAbs().maxCoeff(), 2e-2) << n;
  }
}

TEST(CholeskyTest, RefusesAnIndefiniteMatrix) {
  RowMatrixF a = RowMatrixF::Identity(300, 300);
  a(250, 250) = -1;
  EXPECT_FALSE(CholeskyInPlace(a));
}

}  // namespace
}  // namespace ckn
