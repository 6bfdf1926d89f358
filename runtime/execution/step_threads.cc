// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/step_threads.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/tasks.h"

namespace cotan {
namespace {

// Returns the number of physical cores that this process may run on, at least 1.
int PhysicalCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  absl::flat_hash_set<std::string> cores;  // as lists of their hyperthreads
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream file(absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    std::string siblings;
    if (!std::getline(file, siblings)) siblings = absl::StrCat("cpu", cpu);
    cores.insert(std::move(siblings));
  }
  return std::max(1, static_cast<int>(cores.size()));
}

}  // namespace

int StepThreads(int requested) { return requested == 0 ? PhysicalCores() : std::min(requested, UsableProcessors()); }

}  // namespace cotan
