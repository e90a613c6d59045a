#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ckn {

struct LbfgsbOptions {
  int memory = 10;       // correction pairs
  double factr = 10;     // stop when the relative decrease falls below factr * machine epsilon
  double pgtol = 1e-10;  // stop when the largest projected gradient entry falls below this
};

// Bound-constrained minimisation by L-BFGS-B 3.0 (Byrd, Lu, Nocedal, Zhu 1995; Debian's liblbfgsb) in reverse
// communication: the caller evaluates the function when asked. The whole state can be saved and restored, so an
// interrupted run continues as if it had not stopped.
//
//   Lbfgsb solver(x0, lower_bounded, options);
//   for (;;) switch (solver.Step()) {
//     case kEvaluate: solver.SetValue(f(solver.x(), solver.gradient())); break;
//     case kIteration: ...; break;   // an iteration is complete
//     case kDone: return;
//   }
class Lbfgsb {
 public:
  enum class Request { kEvaluate, kIteration, kDone };

  // lower_bounded[i]: variable i is >= 0; the others are free. Same length as x0.
  Lbfgsb(std::vector<double> x0, const std::vector<bool>& lower_bounded, const LbfgsbOptions& options);

  Request Step();

  [[nodiscard]] const std::vector<double>& x() const { return x_; }
  [[nodiscard]] std::span<double> gradient() { return gradient_; }
  void SetValue(double value) { value_ = value; }
  // Value at the last evaluation; after kIteration and kDone, at x().
  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] int iterations() const;
  // Why Step returned kDone, in the library's words.
  [[nodiscard]] std::string Message() const;

  // Opaque bytes of the state, and back. Restore fails when they do not belong to a problem of this size.
  [[nodiscard]] std::string Save() const;
  absl::Status Restore(std::string_view state);

 private:
  int size_;
  int memory_;
  LbfgsbOptions options_;
  double value_ = 0;
  std::vector<double> x_, lower_, upper_, gradient_, work_;
  std::vector<int> bound_kind_, integer_work_;
  char task_[60], csave_[60];
  int lsave_[4] = {}, isave_[44] = {};
  double dsave_[29] = {};
};

}  // namespace ckn
