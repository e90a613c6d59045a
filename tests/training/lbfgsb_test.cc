#include "server/training/lbfgsb.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

// A curved valley (Rosenbrock's function, pairs of variables); its free minimum is 1 everywhere.
double Rosenbrock(const std::vector<double>& x, std::span<double> gradient) {
  double f = 0;
  for (std::size_t i = 0; i + 1 < x.size(); i += 2) {
    const double a = 1 - x[i], b = x[i + 1] - x[i] * x[i];
    f += a * a + 100 * b * b;
    gradient[i] = -2 * a - 400 * x[i] * b;
    gradient[i + 1] = 200 * b;
  }
  return f;
}

// Runs up to `iterations` iterations; returns whether the solver is done.
bool Advance(Lbfgsb& solver, int iterations) {
  for (;;) {
    switch (solver.Step()) {
      case Lbfgsb::Request::kEvaluate:
        solver.SetValue(Rosenbrock(solver.x(), solver.gradient()));
        break;
      case Lbfgsb::Request::kIteration:
        if (--iterations == 0) return false;
        break;
      case Lbfgsb::Request::kDone:
        return true;
    }
  }
}

TEST(LbfgsbTest, FindsTheMinimumOfACurvedValley) {
  Lbfgsb solver({-1.2, 1, -0.5, 2}, {false, false, false, false}, LbfgsbOptions{});
  EXPECT_TRUE(Advance(solver, 1000));
  EXPECT_THAT(solver.x(), testing::Each(testing::DoubleNear(1, 1e-6)));
  EXPECT_GT(solver.iterations(), 5);
  EXPECT_THAT(solver.Message(), testing::StartsWith("CONVERGENCE"));
}

TEST(LbfgsbTest, RespectsTheBound) {
  // min (x + 3)^2 + (y - 2)^2 with x >= 0.
  Lbfgsb solver({5, 5}, {true, false}, LbfgsbOptions{});
  for (Lbfgsb::Request request; (request = solver.Step()) != Lbfgsb::Request::kDone;) {
    if (request != Lbfgsb::Request::kEvaluate) continue;
    const std::vector<double>& x = solver.x();
    EXPECT_GE(x[0], 0);
    solver.gradient()[0] = 2 * (x[0] + 3);
    solver.gradient()[1] = 2 * (x[1] - 2);
    solver.SetValue((x[0] + 3) * (x[0] + 3) + (x[1] - 2) * (x[1] - 2));
  }
  EXPECT_EQ(solver.x()[0], 0);
  EXPECT_NEAR(solver.x()[1], 2, 1e-8);
}

TEST(LbfgsbTest, ContinuesFromASavedStateAsIfNothingHadHappened) {
  const std::vector<double> start = {-1.2, 1, 3, -4};
  const std::vector<bool> bounded = {false, true, false, true};
  Lbfgsb straight(start, bounded, LbfgsbOptions{});
  Advance(straight, 25);

  Lbfgsb first(start, bounded, LbfgsbOptions{});
  Advance(first, 10);
  const std::string state = first.Save();
  Lbfgsb second({0, 0, 0, 0}, bounded, LbfgsbOptions{});
  ASSERT_TRUE(second.Restore(state).ok());
  EXPECT_EQ(second.iterations(), 10);
  Advance(second, 15);
  EXPECT_EQ(second.x(), straight.x());
  EXPECT_EQ(second.value(), straight.value());
}

TEST(LbfgsbTest, RefusesAStateOfAnotherSize) {
  Lbfgsb two({0, 0}, {false, false}, LbfgsbOptions{});
  Lbfgsb three({0, 0, 0}, {false, false, false}, LbfgsbOptions{});
  EXPECT_EQ(three.Restore(two.Save()).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(two.Restore("").ok());
}

}  // namespace
}  // namespace ckn
