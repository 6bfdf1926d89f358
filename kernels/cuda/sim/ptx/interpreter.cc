// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/interpreter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/block_executor.h"
#include "kernels/cuda/sim/ptx/memory_unit.h"

namespace cotan::cuda::ptx {

absl::StatusOr<Counters> Execute(const Program& program, const Launch& launch, GlobalMemory& memory) {
  COTAN_RETURN_IF_ERROR(CheckLaunch(program, launch));
  Counters counters;
  LaunchMemory shared{memory, counters};
  std::vector<uint64_t> blocks(uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2]);
  std::iota(blocks.begin(), blocks.end(), uint64_t{0});
  if (launch.seed != 0) {
    std::mt19937_64 random(launch.seed);
    std::shuffle(blocks.begin(), blocks.end(), random);
  }
  size_t num_started = 0;
  std::vector<std::unique_ptr<BlockExecutor>> running;
  const int64_t resident = ResidentBlocks(program, launch);
  for (int64_t i = 0; i < resident; ++i) {
    const uint64_t seed = launch.seed == 0 ? 0 : launch.seed + static_cast<uint64_t>(i);
    running.push_back(std::make_unique<BlockExecutor>(program, launch, shared, seed));
    running.back()->Start(blocks[num_started++]);
  }
  while (!running.empty()) {
    for (std::unique_ptr<BlockExecutor>& executor : running) {
      bool ended = false;
      COTAN_RETURN_IF_ERROR(executor->RunRound(ended));
      if (!ended) continue;
      if (num_started < blocks.size()) {
        executor->Start(blocks[num_started++]);
      } else {
        executor = nullptr;
      }
    }
    std::erase(running, nullptr);
  }
  return counters;
}

}  // namespace cotan::cuda::ptx
