#pragma once

#include <filesystem>
#include <string_view>

namespace ckn {

// The CPU time that a process's control groups allow it, in CPUs: 1.5 means 150 ms in every 100 ms. The smallest quota
// of its group and of those above it; 0: none. Files that are missing or malformed count as none.
//   root         where the control groups are mounted, /sys/fs/cgroup: version 2, or version 1 with its folder "cpu"
//   memberships  the text of /proc/self/cgroup. In a container its paths may be the host's, which are not below root.
double CgroupCpuQuota(const std::filesystem::path& root, std::string_view memberships);

// Threads of this process that may run at once: the CPU affinity mask and the quota, rounded, whichever is less; at
// least 1.
int AvailableCpus();

}  // namespace ckn
