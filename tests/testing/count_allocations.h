#pragma once

namespace ckn::testing {

// How often this program has asked for memory by operator new. The count is kept by the operators of
// count_allocations.cc, which a test binary has among its sources.
int Allocations();

}  // namespace ckn::testing
