// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/run_without_team.h"

#include <chrono>
#include <thread>

#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {

void RunWithoutTeam(absl::FunctionRef<void()> fn) {
  std::thread thread([&] {
    // The team loses time when one member waits for another that does nothing. If the other starts too late, the
    // calling thread takes its chunk, and nothing is lost.
    while (!RunsAlone()) {
      ParallelForWorker(2, 2, 1, [](int worker, int64_t, int64_t) {
        if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      });
    }
    fn();
  });
  thread.join();
}

}  // namespace cotan::cpu
