// SPDX-License-Identifier: Apache-2.0

#include <omp.h>

#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/team.h"

namespace cotan::cpu {

bool InTeam() { return omp_in_parallel() != 0; }

void RunTeam(int team, absl::FunctionRef<void(int member, int members)> fn) {
#pragma omp parallel num_threads(team)
  fn(omp_get_thread_num(), omp_get_num_threads());
}

ScopedThreads::ScopedThreads(int threads) : previous_(omp_get_max_threads()) {
  if (threads != previous_) omp_set_num_threads(threads);
}

ScopedThreads::~ScopedThreads() {
  if (omp_get_max_threads() != previous_) omp_set_num_threads(previous_);
}

int DefaultThreads() { return omp_get_max_threads(); }

}  // namespace cotan::cpu
