#include "server/training/svm_newton_binary.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "server/training/cholesky.h"
#include "server/training/svm_line_search.h"

namespace ckn {
namespace {

constexpr Eigen::Index kGatherRows = 1024;
// Sums over rows are formed in single precision over this many rows at a time, then added in double.
constexpr Eigen::Index kSumRows = 256;
// More conjugate gradient steps than this in one solve: the preconditioner is out of date.
constexpr int kRefreshAfterCgIterations = 8;
constexpr int kMaxCgIterations = 200;
constexpr double kCgTolerance = 1e-2;
constexpr double kMaxCByRows = 1 << 15;
// Newton iterations in a row without progress.
constexpr int kStalledIterations = 4;

}  // namespace

// One class's problem along the path. Everything that grows with d^2 is preallocated once and reused.
class BinaryNewton::State {
 public:
  State(const Eigen::Ref<const RowMatrixF>& x, const RowMatrixF& gram, const RowMatrixF& kernel,
        const SvmOptions& options)
      : x_(x),
        gram_(gram),
        kernel_(kernel),
        options_(options),
        y_(x.rows()),
        margins_(x.rows()),
        in_system_(x.rows()) {}

  // Begins with another class: labels +-1, first point w0.
  void Start(const std::vector<float>& y, const Eigen::VectorXd& w0) {
    y_ = y;
    w_ = w0;
    system_ready_ = false;
    factor_ready_ = false;
    precise_ = false;
    UpdateMargins();
  }

  SvmReport Solve(double c, const Progress& progress) {
    c_ = c;
    SvmReport report;
    factor_ready_ = factor_ready_ && factor_c_ > 0 && c_ <= 4 * factor_c_;
    UpdateActive();
    Gradient();
    double least_gap = std::numeric_limits<double>::infinity();
    double least_objective = least_gap;
    int stalled = 0;
    for (;;) {
      report.objective = Objective();
      report.gap = 0.5 * gradient_.squaredNorm();
      if (report.gap <= options_.relative_gap * report.objective ||
          report.newton_iterations == options_.max_newton_iterations || progress.stopped()) {
        return report;
      }
      // With a large C the rounding of single precision outweighs the gradient: change to double, which costs more,
      // and when that makes no progress either, the numbers allow no better. Far from the minimum it is the objective
      // that falls while the gap may rise; near it, the gap.
      const bool progress_made =
          report.gap < 0.5 * least_gap || report.objective < (1 - 0.1 * options_.relative_gap) * least_objective;
      stalled = progress_made ? 0 : stalled + 1;
      if (stalled == kStalledIterations) {
        if (precise_) return report;
        precise_ = true;
        stalled = 0;
        UpdateMargins();
        UpdateActive();
        Gradient();
        least_gap = least_objective = std::numeric_limits<double>::infinity();
        continue;
      }
      least_gap = std::min(least_gap, report.gap);
      least_objective = std::min(least_objective, report.objective);

      if (FewActive()) RefreshByRows();
      if (!factor_ready_ || (by_rows_ && !FewActive())) Refresh();
      const int cg_iterations = SolveNewtonSystem();
      report.cg_iterations += cg_iterations;
      LineSearchStep();
      UpdateActive();
      Gradient();
      if (cg_iterations > kRefreshAfterCgIterations) factor_ready_ = false;
      ++report.newton_iterations;
    }
  }

  [[nodiscard]] const Eigen::VectorXd& w() const { return w_; }

 private:
  [[nodiscard]] Eigen::Index n() const { return x_.rows(); }
  [[nodiscard]] Eigen::Index d() const { return x_.cols(); }

  void UpdateMargins() {
    if (precise_) {
      for (Eigen::Index i = 0; i < n(); ++i) margins_[i] = x_.row(i).cast<double>().dot(w_) * y_[i];
      return;
    }
    const Eigen::VectorXf w = w_.cast<float>();
    for (Eigen::Index i = 0; i < n(); ++i) margins_[i] = static_cast<double>(x_.row(i).dot(w)) * y_[i];
  }

  void UpdateActive() {
    active_.clear();
    for (Eigen::Index i = 0; i < n(); ++i) {
      if (margins_[i] < 1) active_.push_back(static_cast<std::int32_t>(i));
    }
  }

  [[nodiscard]] double Objective() const {
    double loss = 0;
    for (const std::int32_t i : active_) loss += (1 - margins_[i]) * (1 - margins_[i]);
    return 0.5 * w_.squaredNorm() + c_ * loss;
  }

  // out += sum over the active rows of weight(i) * x_i.
  template <typename Weight>
  void AddActiveRows(Weight weight, Eigen::VectorXd& out) {
    partial_.setZero(d());
    Eigen::Index pending = 0;
    for (const std::int32_t i : active_) {
      const float factor = weight(i);
      if (factor != 0) partial_ += factor * x_.row(i).transpose();
      if (++pending == kSumRows) {
        out += partial_.cast<double>();
        partial_.setZero();
        pending = 0;
      }
    }
    out += partial_.cast<double>();
  }

  // grad P = w - 2 C sum over active of y xi x.
  void Gradient() {
    gradient_ = w_;
    if (precise_) {
      for (const std::int32_t i : active_) {
        gradient_ -= (2 * c_ * (1 - margins_[i]) * y_[i]) * x_.row(i).transpose().cast<double>();
      }
      return;
    }
    AddActiveRows([this](std::int32_t i) { return static_cast<float>(-2 * c_ * (1 - margins_[i])) * y_[i]; },
                  gradient_);
  }

  // out = (I / (2 C) + X_A^T X_A) v, the Hessian divided by 2 C.
  void ApplySystem(const Eigen::VectorXd& v, Eigen::VectorXd& out) {
    const Eigen::VectorXf v_float = v.cast<float>();
    out = v / (2 * c_);
    AddActiveRows([&](std::int32_t i) { return x_.row(i).dot(v_float); }, out);
  }

  // Fewer violators than columns: their factor is the smaller one, and cheap enough for every iteration. The errors of
  // the kernel's single precision must stay below the ridge.
  [[nodiscard]] bool FewActive() const {
    return kernel_.size() > 0 && 10 * static_cast<Eigen::Index>(active_.size()) < 7 * d() && c_ <= kMaxCByRows;
  }

  // The factor of X_A X_A^T + I / (2 C), with which
  //   (I / (2 C) + X_A^T X_A)^-1 = 2 C (I - X_A^T (X_A X_A^T + I / (2 C))^-1 X_A).
  // In double: the two terms nearly cancel.
  void RefreshByRows() {
    const auto count = static_cast<Eigen::Index>(active_.size());
    factor_rows_ = active_;
    RowMatrixD system(count, count);
    for (Eigen::Index i = 0; i < count; ++i) {
      for (Eigen::Index j = 0; j <= i; ++j) system(i, j) = static_cast<double>(kernel_(active_[i], active_[j]));
      system(i, i) += 1 / (2 * c_);
    }
    row_factor_.compute(system);
    by_rows_ = row_factor_.info() == Eigen::Success;
    factor_c_ = c_;
    factor_ready_ = by_rows_;
  }

  // Brings X_A^T X_A up to date with the active set, then its factor with C. The factor is a preconditioner only, so
  // single precision and the rounding of many updates cost at most some conjugate gradient steps.
  void Refresh() {
    std::vector<std::int32_t> added, removed;
    if (system_ready_) {
      std::vector<bool> is_active(n());
      for (const std::int32_t i : active_) is_active[i] = true;
      for (Eigen::Index i = 0; i < n(); ++i) {
        if (is_active[i] && !in_system_[i]) added.push_back(static_cast<std::int32_t>(i));
        if (!is_active[i] && in_system_[i]) removed.push_back(static_cast<std::int32_t>(i));
      }
    }
    // Three ways to the same matrix: update, from all rows less the inactive ones, from the active ones.
    const std::size_t update_cost = system_ready_ ? added.size() + removed.size() : SIZE_MAX;
    const std::size_t complement_cost = static_cast<std::size_t>(n()) - active_.size();
    if (update_cost > std::min(complement_cost, active_.size())) {
      added.clear();
      removed.clear();
      if (complement_cost < active_.size()) {
        system_ = gram_;
        std::vector<bool> is_active(n());
        for (const std::int32_t i : active_) is_active[i] = true;
        for (Eigen::Index i = 0; i < n(); ++i) {
          if (!is_active[i]) removed.push_back(static_cast<std::int32_t>(i));
        }
      } else {
        system_.setZero(d(), d());
        added = active_;
      }
    }
    AddRows(added, 1);
    AddRows(removed, -1);
    std::fill(in_system_.begin(), in_system_.end(), false);
    for (const std::int32_t i : active_) in_system_[i] = true;
    system_ready_ = true;

    const auto ridge = static_cast<float>(1 / (2 * c_));
    float jitter = 0;
    for (;;) {
      factor_ = system_;
      factor_.diagonal().array() += ridge + jitter;
      if (CholeskyInPlace(factor_)) break;
      jitter = jitter == 0 ? 1e-6F * (system_.trace() / static_cast<float>(d()) + ridge) : 10 * jitter;
    }
    by_rows_ = false;
    factor_c_ = c_;
    factor_ready_ = true;
  }

  void AddRows(const std::vector<std::int32_t>& rows, float sign) {
    gathered_.resize(kGatherRows, d());
    for (std::size_t begin = 0; begin < rows.size(); begin += kGatherRows) {
      const auto count = static_cast<Eigen::Index>(std::min<std::size_t>(kGatherRows, rows.size() - begin));
      for (Eigen::Index i = 0; i < count; ++i) gathered_.row(i) = x_.row(rows[begin + i]);
      AddGram(gathered_.data(), count, d(), sign, system_);
    }
  }

  // Preconditioned conjugate gradients for step_ in system * step = -gradient / (2 C). Returns the iterations.
  int SolveNewtonSystem() {
    Eigen::VectorXd residual = -gradient_ / (2 * c_);
    const double target = kCgTolerance * residual.norm();
    step_.setZero(d());
    Eigen::VectorXd z = Precondition(residual);
    Eigen::VectorXd direction = z;
    Eigen::VectorXd image(d());
    double rz = residual.dot(z);
    int iteration = 0;
    while (iteration < kMaxCgIterations) {
      ++iteration;
      ApplySystem(direction, image);
      const double curvature = direction.dot(image);
      if (!(curvature > 0)) break;
      const double length = rz / curvature;
      step_ += length * direction;
      residual -= length * image;
      if (residual.norm() <= target) break;
      z = Precondition(residual);
      const double next = residual.dot(z);
      direction = z + (next / rz) * direction;
      rz = next;
    }
    return iteration;
  }

  Eigen::VectorXd Precondition(const Eigen::VectorXd& residual) {
    if (by_rows_) return PreconditionByRows(residual);
    // Scaled to unit size: single precision has little room for tiny residuals.
    const double scale = residual.norm();
    Eigen::VectorXf z = (residual / scale).cast<float>();
    CholeskySolve(factor_, z);
    return scale * z.cast<double>();
  }

  Eigen::VectorXd PreconditionByRows(const Eigen::VectorXd& residual) {
    Eigen::VectorXd along(static_cast<Eigen::Index>(factor_rows_.size()));
    for (Eigen::Index i = 0; i < along.size(); ++i) along[i] = x_.row(factor_rows_[i]).cast<double>().dot(residual);
    row_factor_.solveInPlace(along);
    Eigen::VectorXd z = residual;
    for (Eigen::Index i = 0; i < along.size(); ++i) z -= along[i] * x_.row(factor_rows_[i]).transpose().cast<double>();
    return 2 * factor_c_ * z;
  }

  void LineSearchStep() {
    const Eigen::VectorXf step = step_.cast<float>();
    slopes_.resize(n());
    for (Eigen::Index i = 0; i < n(); ++i) slopes_[i] = static_cast<double>(x_.row(i).dot(step)) * y_[i];
    w_ += ExactLineSearch(margins_, slopes_, c_, w_.dot(step_), step_.squaredNorm()) * step_;
    // From w itself, not by adding to the old margins: rounding does not pile up.
    UpdateMargins();
  }

  const Eigen::Ref<const RowMatrixF> x_;  // [n][d], last column 1
  const RowMatrixF& gram_;                // X^T X, lower triangle
  const RowMatrixF& kernel_;              // X X^T, lower triangle, or empty
  const SvmOptions options_;
  double c_ = 0;
  std::vector<float> y_;     // [n]
  Eigen::VectorXd margins_;  // y_i w.x_i, [n]
  Eigen::VectorXd slopes_;   // y_i step.x_i, [n]
  std::vector<std::int32_t> active_;
  Eigen::VectorXd w_, gradient_, step_;
  Eigen::VectorXf partial_;

  RowMatrixF system_, factor_, gathered_;
  std::vector<bool> in_system_;  // rows that system_ holds
  bool system_ready_ = false, factor_ready_ = false;
  double factor_c_ = 0;
  Eigen::LLT<RowMatrixD> row_factor_;
  std::vector<std::int32_t> factor_rows_;  // of row_factor_
  bool by_rows_ = false;                   // row_factor_ is the one in use
  bool precise_ = false;                   // margins and gradient in double precision
};

BinaryNewton::BinaryNewton(const Eigen::Ref<const RowMatrixF>& x, const RowMatrixF& gram, const RowMatrixF& kernel,
                           const SvmOptions& options)
    : state_(std::make_unique<State>(x, gram, kernel, options)) {}

BinaryNewton::~BinaryNewton() = default;

void BinaryNewton::Start(const std::vector<float>& y, const Eigen::VectorXd& w0) { state_->Start(y, w0); }

SvmReport BinaryNewton::Solve(double c, const Progress& progress) { return state_->Solve(c, progress); }

const Eigen::VectorXd& BinaryNewton::w() const { return state_->w(); }

}  // namespace ckn
