#pragma once

#include <string>

namespace ckn {

// The processor as the system calls it, or "unknown".
std::string CpuName();

// Processor time of all threads of this process so far, in seconds.
double ProcessCpuSeconds();

// The peak of resident memory since the start or the last reset, in MiB; 0 where the system does not tell.
double PeakMemoryMib();
// Resident memory now, likewise.
double ResidentMemoryMib();
// No effect where the system does not allow it.
void ResetPeakMemory();

}  // namespace ckn
