// Fork-join parallelism of the CPU kernels, on the OpenMP runtime that oneDNN
// uses too, so that a process has one pool of workers.
#ifndef COTAN_KERNELS_CPU_THREADING_PARALLEL_H_
#define COTAN_KERNELS_CPU_THREADING_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace cotan::cpu {

// Calls fn(begin, end) for the chunks [0, grain), [grain, 2 * grain), ... that
// make up [0, count); the last one may be shorter. Each chunk is one call, so
// where results depend on the boundaries (partial sums) they depend on `grain`
// alone, never on the number of threads. Chunks run in any order, on at most
// `threads` threads; neighbouring chunks tend to share a thread. Returns when
// all are done. Allocates nothing after a thread count's first use.
//
// count >= 0, grain >= 1, threads >= 1. A lone chunk, or threads == 1, runs on
// the caller without touching the pool. Nested calls run serially.
void ParallelFor(int threads, int64_t count, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> fn);

// As ParallelFor; `worker` in [0, threads) tells which of the threads runs the
// chunk, for scratch memory of its own. At one time a worker runs one chunk.
void ParallelForWorker(int threads, int64_t count, int64_t grain,
                       absl::FunctionRef<void(int worker, int64_t begin, int64_t end)> fn);

// Threads, at most `threads`, that pay for an op of `flops` floating point
// operations: below about 10 microseconds each they cost more than they give.
int ThreadsWorthwhile(int threads, double flops);

// While it lives, libraries called from this thread that size their teams by
// OpenMP's default (oneDNN) use `threads` threads.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads);
  ~ScopedThreads();
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int previous_;
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_PARALLEL_H_
