// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/parallel.h"

#include <omp.h>

#include <algorithm>

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
  if (team <= 1 || omp_in_parallel() != 0) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) run(0, chunk);
    return;
  }
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) run(omp_get_thread_num(), chunk);
}

int ThreadsWorthwhile(int threads, double flops) {
  if (flops >= kFlopsPerThread * threads) return threads;
  return std::max(1, static_cast<int>(flops / kFlopsPerThread));
}

ScopedThreads::ScopedThreads(int threads) : previous_(omp_get_max_threads()) {
  if (threads != previous_) omp_set_num_threads(threads);
}

ScopedThreads::~ScopedThreads() {
  if (omp_get_max_threads() != previous_) omp_set_num_threads(previous_);
}

}  // namespace cotan::cpu
