// SPDX-License-Identifier: Apache-2.0

// Counts of what a simulated GPU was asked for and did.
#ifndef COTAN_KERNELS_CUDA_SIM_STATISTICS_H_
#define COTAN_KERNELS_CUDA_SIM_STATISTICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "kernels/cuda/sim/ptx/counters.h"

namespace cotan::cuda::sim {

struct KernelStatistics {
  int64_t runs = 0;        // Within graphs, too.
  int64_t early_runs = 0;  // Those with programmatic stream serialization.
  ptx::Counters counters;  // Sums over the runs.
};

struct TransferStatistics {
  int64_t count = 0;  // Runs, within graphs, too.
  int64_t bytes = 0;
};

struct Statistics {
  // Calls that succeeded; those recorded into a graph are not counted.
  int64_t kernel_launches = 0;
  int64_t graph_launches = 0;
  int64_t graph_nodes = 0;       // Sum over the graph launches.
  int64_t synchronizations = 0;  // Of a stream, an event or the context, and copies that block.
  int64_t allocations = 0;       // Of device memory.
  int64_t allocated_bytes = 0;
  int64_t host_allocations = 0;
  int64_t module_loads = 0;

  // Work that ran.
  TransferStatistics to_device;
  TransferStatistics to_host;
  TransferStatistics on_device;
  TransferStatistics sets;
  std::map<std::string, KernelStatistics> kernels;  // By entry name.
  std::map<std::string, int64_t> host_functions;    // Runs, by label.

  // Calls by name of the function, failed ones too.
  std::map<std::string, int64_t> calls;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_STATISTICS_H_
