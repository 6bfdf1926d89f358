// SPDX-License-Identifier: Apache-2.0

// Threads that run one function together: OpenMP's (team_openmp.cc), or those of this project in a binary without
// OpenMP (team_workers.cc; //base:small).
#ifndef COTAN_KERNELS_CPU_THREADING_TEAM_H_
#define COTAN_KERNELS_CPU_THREADING_TEAM_H_

#include "absl/functional/function_ref.h"

namespace cotan::cpu {

// Returns whether the calling thread is in a call of RunTeam().
bool InTeam();

// Calls fn(member, members) once for each `member` in [0, members), on one thread each, 0 on the calling thread, and
// returns when all calls have. `members` is `team`, or less if the system has no more threads. Each calling thread has
// threads of its own, which stay for later calls; nothing is allocated after the first call with a `team`.
//
// team >= 1; not InTeam().
void RunTeam(int team, absl::FunctionRef<void(int member, int members)> fn);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_TEAM_H_
