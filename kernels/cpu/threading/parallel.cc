// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/parallel.h"

#include <algorithm>

#include "kernels/cpu/threading/team.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {

void ParallelFor(int threads, int64_t count, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> fn) {
  ParallelForWorker(threads, count, grain, [&](int, int64_t begin, int64_t end) { fn(begin, end); });
}

void ParallelForWorker(int threads, int64_t count, int64_t grain,
                       absl::FunctionRef<void(int worker, int64_t begin, int64_t end)> fn) {
  const int64_t chunks = count / grain + (count % grain != 0);
  const auto run = [&](int worker, int64_t chunk) {
    const int64_t begin = chunk * grain;
    fn(worker, begin, std::min(grain, count - begin) + begin);
  };
  const int team = static_cast<int>(std::min<int64_t>(threads, chunks));
  if (team <= 1 || InTeam()) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) run(0, chunk);
    return;
  }
  // Each member takes adjacent chunks, the first ones one more if there is a rest.
  RunTeam(team, [&](int member, int members) {
    const int64_t each = chunks / members;
    const int64_t rest = chunks % members;
    const int64_t first = member * each + std::min<int64_t>(member, rest);
    const int64_t end = first + each + (member < rest ? 1 : 0);
    for (int64_t chunk = first; chunk < end; ++chunk) run(member, chunk);
  });
}

int ThreadsWorthwhile(int threads, double flops) {
  if (flops >= kFlopsPerThread * threads) return threads;
  return std::max(1, static_cast<int>(flops / kFlopsPerThread));
}

}  // namespace cotan::cpu
