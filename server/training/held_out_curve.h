#pragma once

#include <cstdint>
#include <vector>

namespace ckn {

// The errors on held-out images as C goes up, and whether the best C is behind.
//
// The same images are judged at each C, so two values of C differ by the images on which just one of them is right, not
// by the spread of an error rate: where b images are wrong only now and c were wrong only at the best C, chance alone
// gives b - c a standard deviation of sqrt(b + c) (McNemar's test). Neighbouring values agree on most images.
class HeldOutCurve {
 public:
  // wrong[i]: whether held-out image i is put into a wrong class at the next value of C, all of the same length.
  void Add(std::vector<bool> wrong);

  // True when the last two values are both worse than the best by more than two standard deviations, or the last six
  // are no better than it. False as long as no value is better than the first: at a very small C errors may be alike.
  [[nodiscard]] bool BestIsBehind() const;

 private:
  std::vector<bool> best_wrong_;
  std::int64_t first_errors_ = -1;  // -1: none added
  std::int64_t best_errors_ = 0;
  int since_best_ = 0;
  int clearly_worse_ = 0;  // the last values in a row
};

}  // namespace ckn
