#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "client/load/load_run.h"

// What ckn-client load prints. Rates are those of the calls that succeeded, and of their good images.
namespace ckn {

// For people: a line for each code of calls, then what went wrong.
std::string LoadTable(const LoadPlan& plan, const LoadResult& result);

// For programs; ckn-client load --help lists the keys.
std::string LoadJson(const LoadPlan& plan, const LoadResult& result);

// "12 of 345 calls failed: 10 UNAVAILABLE, 2 INTERNAL", and the same of the images of good calls; empty when none
// failed but with a code that is tolerated.
std::string LoadFailures(const LoadResult& result, const std::set<absl::StatusCode>& tolerated);

}  // namespace ckn
