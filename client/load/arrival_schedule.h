#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace ckn {

enum class Arrivals {
  kConstant,  // the same time between any two
  kPoisson,   // as many independent clients come: exponential times between them
};

// When the calls of an open loop are to be sent. The times depend on nothing but these arguments, least of all on
// replies: a slow server does not slow down those who come to it.
class ArrivalSchedule {
 public:
  // rate: calls a second, above 0.
  ArrivalSchedule(double rate, Arrivals arrivals, std::uint64_t seed) : rate_(rate), arrivals_(arrivals), rng_(seed) {}

  // From the start to the next call; the first comes at 0.
  std::chrono::nanoseconds Next();

 private:
  const double rate_;
  const Arrivals arrivals_;
  std::mt19937_64 rng_;
  std::int64_t calls_ = 0;
  double poisson_seconds_ = 0;
};

}  // namespace ckn
