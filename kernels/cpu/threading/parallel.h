// SPDX-License-Identifier: Apache-2.0

// Fork-join parallelism of the CPU kernels, on the OpenMP runtime that oneDNN uses too, so that a process has
// one pool of workers. In small binaries, which have no oneDNN, on threads of this project (team.h).
#ifndef COTAN_KERNELS_CPU_THREADING_PARALLEL_H_
#define COTAN_KERNELS_CPU_THREADING_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace cotan::cpu {

// Calls fn(begin, end) for the chunks [0, grain), [grain, 2 * grain), ... of [0, count); the last chunk may
// be shorter. Each chunk is one call, so results that depend on chunk boundaries (partial sums) depend on
// `grain` only, not on the number of threads. Chunks run in any order on at most `threads` threads; adjacent
// chunks tend to run on the same thread, and a thread that is done takes chunks of others. Returns when all chunks are
// done. Allocates nothing after the first use of a thread count. All threads compute in the calling thread's mode of
// subnormal numbers (base/denormal_mode.h).
//
// count >= 0, grain >= 1, threads >= 1. A single chunk, or threads == 1, runs on the calling thread without
// the pool. Nested calls run serially.
void ParallelFor(int threads, int64_t count, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> fn);

// Calls fn(worker, begin, end) for the chunks of ParallelFor(). `worker` in [0, threads) is the number of the
// thread that runs the chunk, for per-thread scratch; a worker runs one chunk at a time.
void ParallelForWorker(int threads, int64_t count, int64_t grain,
                       absl::FunctionRef<void(int worker, int64_t begin, int64_t end)> fn);

// Returns whether the team of the calling thread is suspended, because its members lose more time than they save
// (team_backoff.h): loops that may use more threads run on the calling thread alone. For kernels that have code for
// both.
bool RunsAlone();

// Returns the number of threads, at most `threads`, that an op of `flops` floating point operations should
// use: a thread with less than about 10 microseconds of work costs more than it saves.
int ThreadsWorthwhile(int threads, double flops);

// Sets OpenMP's default thread count of the calling thread to `threads` and restores it on destruction.
// Libraries that use the default (oneDNN) then run on `threads` threads. Does nothing in small binaries.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads);
  ~ScopedThreads();
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int previous_;
};

// Returns OpenMP's default thread count of the calling thread; 1 in small binaries.
int DefaultThreads();

// While the calling thread flushes subnormal numbers (base/denormal_mode.h): lets the `threads` threads of its team
// flush them, too, and ends that on destruction. For libraries that start teams of their own (oneDNN), of at most
// `threads`; ParallelFor() does not need it.
class ScopedTeamMode {
 public:
  explicit ScopedTeamMode(int threads);
  ~ScopedTeamMode();
  ScopedTeamMode(const ScopedTeamMode&) = delete;
  ScopedTeamMode& operator=(const ScopedTeamMode&) = delete;

 private:
  const int threads_;  // 0: nothing is set
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_PARALLEL_H_
