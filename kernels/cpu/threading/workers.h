// SPDX-License-Identifier: Apache-2.0

// Threads that wait for work of one other thread.
#ifndef COTAN_KERNELS_CPU_THREADING_WORKERS_H_
#define COTAN_KERNELS_CPU_THREADING_WORKERS_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"

namespace cotan::cpu {

// A group of threads, started when they are first needed and kept until destruction. A thread that waits polls for 0.1
// to 1 ms, which is longer than most serial parts of a step, and then sleeps; those without a processor of their own
// sleep at once.
//
// Run() and the destructor are called by one thread.
class Workers {
 public:
  using Job = absl::FunctionRef<void(int member, int members)>;

  Workers();
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Calls job(member, members) for each `member` in [0, members): 0 on the calling thread, each other on one worker.
  // Returns when all have returned. `members` is `team`, at least 1, or what there is if the system starts no more
  // threads. Allocates nothing if a call before had this `team`.
  void Run(int team, Job job);

 private:
  struct Worker {
    Workers* workers = nullptr;
    int member = 0;
    pthread_t thread = {};
    alignas(64) std::atomic<uint32_t> posted = 0;  // the number of jobs so far
  };

  static void* Main(void* worker);
  void Work(Worker& worker);
  // Starts workers until there are `count`; returns how many there are.
  int Start(int count);
  const int processors_;                          // that this process may use
  std::vector<std::unique_ptr<Worker>> workers_;  // of the members 1, 2, ...
  const Job* job_ = nullptr;                      // null = workers end
  int members_ = 0;
  alignas(64) std::atomic<uint32_t> at_work_ = 0;
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_WORKERS_H_
