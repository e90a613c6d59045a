#include "server/simd/target.h"

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hwy/targets.h"

namespace ckn {
namespace {

// Highway calls AVX-512 AVX3.
std::string Name(std::int64_t target) {
  const std::string name = absl::AsciiStrToLower(hwy::TargetName(target));
  return name == "avx3" ? "avx512" : name;
}

dnnl::cpu_isa CpuIsa(std::int64_t target) {
  if (target < HWY_AVX3) return dnnl::cpu_isa::all;  // newer than plain AVX-512
  if (target == HWY_AVX3) return dnnl::cpu_isa::avx512_core;
  return target == HWY_AVX2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41;
}

}  // namespace

std::vector<std::string> SimdTargets() {
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) names.push_back(Name(target));
  return names;
}

absl::Status SelectSimdTarget(const std::string& name) {
  std::int64_t better = 0;  // all that come before the one asked for
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (Name(target) == name) {
      hwy::DisableTargets(better);
      // Refused after oneDNN's first product only.
      if (dnnl::set_max_cpu_isa(CpuIsa(target)) != dnnl::status::success) {
        return absl::FailedPreconditionError("the instruction set can be chosen at the start of the program only");
      }
      return absl::OkStatus();
    }
    better |= target;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("got \"", name, "\", expected one of ", absl::StrJoin(SimdTargets(), ", "), " on this machine"));
}

}  // namespace ckn
