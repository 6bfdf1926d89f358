// SPDX-License-Identifier: Apache-2.0

// Counts of what a launch did.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_COUNTERS_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_COUNTERS_H_

#include <cstdint>

namespace cotan::cuda::ptx {

struct Counters {
  // Instructions of threads whose guard holds.
  uint64_t arithmetic = 0;  // Arithmetic, conversions, comparisons and moves.
  uint64_t memory = 0;      // Loads, stores, atomics and asynchronous copies.
  uint64_t control = 0;     // Branches, calls, returns.
  uint64_t warp = 0;        // Shuffles, votes, warp barriers.
  uint64_t barriers = 0;    // Block barriers and fences.
  // Instructions of warps: one for all lanes that execute it together.
  uint64_t warp_instructions = 0;

  // Global memory: bytes that threads ask for, and 32-byte sectors that each access of a warp touches.
  uint64_t global_load_bytes = 0;
  uint64_t global_store_bytes = 0;
  uint64_t global_load_sectors = 0;
  uint64_t global_store_sectors = 0;
  uint64_t global_atomics = 0;
  // Sectors that the launch loads or stores at least once: the traffic of memory behind an L2 cache that keeps what it
  // got until the launch ends.
  uint64_t distinct_load_sectors = 0;
  uint64_t distinct_store_sectors = 0;

  uint64_t shared_accesses = 0;        // Of warps.
  uint64_t shared_bank_conflicts = 0;  // Additional passes because lanes use different words of a bank.

  uint64_t Instructions() const { return arithmetic + memory + control + warp + barriers; }
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_COUNTERS_H_
