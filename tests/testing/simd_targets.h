#pragma once

#include <cstdint>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "server/simd/target.h"

namespace ckn::testing {

// Runs a body once for each instruction set that this machine has.
template <typename Body>
void ForEachTarget(Body body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    SCOPED_TRACE(SimdTarget());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace ckn::testing
