// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/interpreter.h"

#include <algorithm>
#include <cstdint>
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
  MemoryUnit unit(program, launch, memory, counters);
  BlockExecutor executor(program, launch, unit, counters);
  const uint64_t count = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  if (launch.seed == 0) {
    for (uint64_t block = 0; block < count; ++block) COTAN_RETURN_IF_ERROR(executor.Run(block));
    return counters;
  }
  std::vector<uint64_t> blocks(count);
  std::iota(blocks.begin(), blocks.end(), uint64_t{0});
  std::mt19937_64 random(launch.seed);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (const uint64_t block : blocks) COTAN_RETURN_IF_ERROR(executor.Run(block));
  return counters;
}

}  // namespace cotan::cuda::ptx
