// SPDX-License-Identifier: Apache-2.0

// The state of a warp.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_WARP_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_WARP_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cotan::cuda::ptx {

inline constexpr int kWarpSize = 32;

// Calls `f` with each lane of `mask`.
template <typename F>
void ForEachLane(uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

// The masks have a bit for each lane.
struct Warp {
  uint32_t* Defined(int reg) { return &defined[reg]; }
  uint64_t* Values(int reg) { return &values[static_cast<size_t>(reg) * kWarpSize]; }

  int index = 0;      // Within the block.
  uint32_t live = 0;  // Lanes that have not exited.
  uint32_t at_barrier = 0;
  uint32_t at_sync = 0;  // Waits for the other lanes of `members`.
  uint32_t epoch = 0;    // See AccessPoint.
  uint32_t carry = 0;    // Carry flags.
  uint32_t waited = 0;   // Lanes that executed griddepcontrol.wait.
  int pc[kWarpSize] = {};
  uint32_t members[kWarpSize] = {};
  int barrier[kWarpSize] = {};          // Number of the barrier that a lane waits at.
  std::vector<int> returns[kWarpSize];  // Calls that a lane is in, innermost last.
  std::vector<uint64_t> values;         // [register][lane]
  std::vector<uint32_t> defined;        // [register], lanes that wrote it.
  uint64_t executed = 0;                // Instructions.
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_WARP_H_
