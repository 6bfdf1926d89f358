// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/team.h"
#include "kernels/cpu/threading/workers.h"

namespace cotan::cpu {
namespace {

thread_local bool in_team = false;

}  // namespace

bool InTeam() { return in_team; }

void RunTeam(int team, absl::FunctionRef<void(int member, int members)> fn) {
  // Workers end with the thread that they work for.
  thread_local Workers workers;
  workers.Run(team, [fn](int member, int members) {
    in_team = true;
    fn(member, members);
    in_team = false;
  });
}

// There is no library with threads of its own.
ScopedThreads::ScopedThreads(int threads) : previous_(threads) {}
ScopedThreads::~ScopedThreads() = default;

int DefaultThreads() { return 1; }

}  // namespace cotan::cpu
