#include "server/simd/target.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

// Highway compiles the lines between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/simd/target.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
// Highway's form: the inner name is a macro.
// NOLINTNEXTLINE(modernize-concat-nested-namespaces)
namespace ckn {
namespace HWY_NAMESPACE {

std::int64_t Target() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace ckn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#if HWY_ARCH_X86_64
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ckn {
namespace {

HWY_EXPORT(Target);

// What the loops run on. Not from hwy::SupportedTargets(), which has all threads forget what was disabled until the
// next choice.
std::int64_t ChosenTarget() { return HWY_DYNAMIC_DISPATCH(Target)(); }

// Of this machine, less the disabled ones, best first.
std::vector<std::int64_t> Targets() {
  std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  hwy::GetChosenTarget().DeInit();  // choose again
  return targets;
}

// Highway calls AVX-512 AVX3.
std::string Name(std::int64_t target) {
  const std::string name = absl::AsciiStrToLower(hwy::TargetName(target));
  return name == "avx3" ? "avx512" : name;
}

constexpr const char* kUnitNames[] = {"", "avx512_bf16", "amx_bf16"};

dnnl::cpu_isa CpuIsa(std::int64_t target) {
  if (target < HWY_AVX3) return dnnl::cpu_isa::all;  // newer than plain AVX-512
  if (target == HWY_AVX3) return dnnl::cpu_isa::avx512_core;
  return target == HWY_AVX2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41;
}

#if HWY_ARCH_X86_64
// Linux gives a process the tile registers when it asks for them. Their state is large.
bool AskForTiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Bfloat16Unit UnitOfThisMachine() {
  constexpr unsigned kAvx512Bf16 = 1U << 5, kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & kAvx512Bf16) == 0) return Bfloat16Unit::kNone;
  constexpr unsigned kAmx = kAmxBf16 | kAmxTile;
  const bool amx = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmx) == kAmx;
  return amx && AskForTiles() ? Bfloat16Unit::kAmx : Bfloat16Unit::kAvx512;
}
#else
Bfloat16Unit UnitOfThisMachine() { return Bfloat16Unit::kNone; }
#endif

std::atomic<Bfloat16Unit>& MostUnit() {
  static std::atomic<Bfloat16Unit> most{Bfloat16Unit::kAmx};
  return most;
}

}  // namespace

Bfloat16Unit ChosenBfloat16Unit() {
  static const Bfloat16Unit unit = UnitOfThisMachine();
  // Highway's numbers are the smaller the better the target is.
  return ChosenTarget() <= HWY_AVX3 ? std::min(unit, MostUnit().load()) : Bfloat16Unit::kNone;
}

void LimitBfloat16Unit(Bfloat16Unit most) { MostUnit() = most; }

std::vector<std::string> SimdTargets() {
  std::vector<std::string> names;
  for (auto unit = static_cast<int>(ChosenBfloat16Unit()); unit > 0; --unit) names.emplace_back(kUnitNames[unit]);
  for (const std::int64_t target : Targets()) names.push_back(Name(target));
  return names;
}

std::string SimdTarget(bool bfloat16) {
  const auto unit = bfloat16 ? static_cast<int>(ChosenBfloat16Unit()) : 0;
  return unit > 0 ? kUnitNames[unit] : Name(ChosenTarget());
}

absl::Status SelectSimdTarget(const std::string& name) {
  for (auto unit = static_cast<int>(ChosenBfloat16Unit()); unit > 0; --unit) {
    if (name != kUnitNames[unit]) continue;
    LimitBfloat16Unit(static_cast<Bfloat16Unit>(unit));
    return absl::OkStatus();
  }
  std::int64_t better = 0;  // all that come before the one asked for
  for (const std::int64_t target : Targets()) {
    if (Name(target) == name) {
      hwy::DisableTargets(better);
      LimitBfloat16Unit(Bfloat16Unit::kNone);
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
#endif  // HWY_ONCE
