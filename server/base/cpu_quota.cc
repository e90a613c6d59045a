#include "server/base/cpu_quota.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace ckn {
namespace {

namespace fs = std::filesystem;

std::string Text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// 0 for "max", -1 (version 1's word for it) and whatever is not a number.
double Quota(absl::string_view quota, absl::string_view period) {
  std::int64_t time = 0, of = 0;
  if (!absl::SimpleAtoi(quota, &time) || !absl::SimpleAtoi(period, &of) || time <= 0 || of <= 0) return 0;
  return static_cast<double>(time) / static_cast<double>(of);
}

// Of one group; version 2 has "QUOTA PERIOD" in one file, version 1 a file each.
double QuotaOfGroup(const fs::path& group, bool version_2) {
  if (!version_2) return Quota(Text(group / "cpu.cfs_quota_us"), Text(group / "cpu.cfs_period_us"));
  const std::string text = Text(group / "cpu.max");
  const std::vector<absl::string_view> words = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  return words.size() == 2 ? Quota(words[0], words[1]) : 0;
}

}  // namespace

double CgroupCpuQuota(const fs::path& root, std::string_view memberships) {
  double smallest = 0;
  // Lines "HIERARCHY:CONTROLLERS:PATH"; version 2 has no controllers.
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(memberships.data(), memberships.size()), '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const bool version_2 = fields[1].empty();
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (!version_2 && std::ranges::find(controllers, "cpu") == controllers.end()) continue;
    const fs::path top = version_2 ? root : root / "cpu";
    const fs::path path{std::string(fields[2])};
    for (fs::path group = path.relative_path();; group = group.parent_path()) {
      const double quota = QuotaOfGroup(top / group, version_2);
      if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
      if (group.empty()) break;
    }
  }
  return smallest;
}

int AvailableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const double quota = CgroupCpuQuota("/sys/fs/cgroup", Text("/proc/self/cgroup"));
  const double allowed = quota > 0 ? std::min<double>(cpus, std::round(quota)) : cpus;
  return std::max(1, static_cast<int>(allowed));
}

}  // namespace ckn
