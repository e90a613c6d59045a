#include "server/base/resource_usage.h"

#include <ctime>
#include <fstream>
#include <string>

namespace ckn {
namespace {

// A size in the system's view of this process.
double StatusMib(const std::string& wanted) {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    double kib = 0;
    if (key == wanted && status >> kib) return kib / 1024;
    std::getline(status, key);
  }
  return 0;
}

}  // namespace

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

double ProcessCpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double PeakMemoryMib() { return StatusMib("VmHWM:"); }

double ResidentMemoryMib() { return StatusMib("VmRSS:"); }

void ResetPeakMemory() { std::ofstream("/proc/self/clear_refs") << '5'; }

}  // namespace ckn
