// SPDX-License-Identifier: Apache-2.0

// A launch of a kernel and the limits of architectures.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_LAUNCH_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_LAUNCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/sim/ptx/program.h"

namespace cotan::cuda::ptx {

struct Launch {
  std::array<uint32_t, 3> grid = {1, 1, 1};   // Blocks.
  std::array<uint32_t, 3> block = {1, 1, 1};  // Threads.
  int64_t dynamic_shared_bytes = 0;
  // The kernel's parameter buffer: each at Parameter.offset. Length = Function.parameter_bytes.
  std::vector<std::byte> parameters = {};
  int compute_capability = 90;  // Ten times the major plus the minor version: 80, 90, 100, 120.

  // The kernel may begin before earlier work has ended: its threads execute griddepcontrol.wait before they access
  // global memory, and before they exit.
  bool begins_early = false;

  // Multiprocessors of the GPU. Blocks of a program that sleeps run at the same time: one on each multiprocessor, or as
  // many as .minnctapersm promises. Those of other programs run one after another.
  int multiprocessors = 1;

  // 0 runs blocks and warps in order; another seed draws an order.
  uint64_t seed = 0;
  bool check_registers = true;                         // Reports reads of registers never written.
  bool check_races = true;                             // Reports unordered accesses of threads to one byte.
  uint64_t max_warp_instructions = uint64_t{1} << 36;  // A launch that needs more hangs.
};

// Returns the bytes of shared memory that a block may use, with those that need an opt-in.
int64_t MaxSharedBytes(int compute_capability);

// Returns how many blocks of the launch run at the same time, >= 1. A limit on the memory of the simulator may make
// them fewer than those that `launch.multiprocessors` would run.
int64_t ResidentBlocks(const Program& program, const Launch& launch);

// Fails with InvalidArgument if the launch exceeds the limits of its architecture or of the kernel.
absl::Status CheckLaunch(const Program& program, const Launch& launch);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_LAUNCH_H_
