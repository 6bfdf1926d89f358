// SPDX-License-Identifier: Apache-2.0

// Suspends a team, for tests of kernels that have code for one thread (RunsAlone() of parallel.h).
#ifndef COTAN_KERNELS_CPU_THREADING_RUN_WITHOUT_TEAM_H_
#define COTAN_KERNELS_CPU_THREADING_RUN_WITHOUT_TEAM_H_

#include "absl/functional/function_ref.h"

namespace cotan::cpu {

// Calls fn() on a thread of its own, whose team is suspended for 20 ms from then on.
void RunWithoutTeam(absl::FunctionRef<void()> fn);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_RUN_WITHOUT_TEAM_H_
