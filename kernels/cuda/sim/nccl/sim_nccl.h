// SPDX-License-Identifier: Apache-2.0

// A simulated NCCL for ranks that are threads of one process.
#ifndef COTAN_KERNELS_CUDA_SIM_NCCL_SIM_NCCL_H_
#define COTAN_KERNELS_CUDA_SIM_NCCL_SIM_NCCL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/nccl/nccl_table.h"
#include "kernels/cuda/sim/sim_gpu.h"

namespace cotan::cuda::sim {

class NcclWorld;

// The connections of all ranks. Outlives their libraries. Thread-safe.
class SimNcclNetwork {
 public:
  SimNcclNetwork();
  SimNcclNetwork(const SimNcclNetwork&) = delete;
  SimNcclNetwork& operator=(const SimNcclNetwork&) = delete;
  ~SimNcclNetwork();

  NcclWorld& world() { return *world_; }

 private:
  const std::unique_ptr<NcclWorld> world_;
};

class NcclState;

// The library of one rank, with one simulated GPU, which outlives it. Checks what callers of NCCL must respect. Calls
// fail for unknown or aborted communicators, ranks, types and streams, and for a communicator that does not have one
// rank per library. What other ranks do is checked when a transfer runs: each message has a receiver that expects it as
// the same call of its communicator, with the same type and count; all transfers of a communicator are ordered by
// streams or the graph; operands are in live allocations, and what is sent was written before.
//
// A call for a communicator that was made with blocking = 0 returns ncclInProgress. It goes on when
// ncclCommGetAsyncError is called, which queues a transfer, and is complete at the next one.
//
// A transfer runs when something demands it, as all work of a SimGpu, and then waits for the messages of other ranks:
// each rank needs a thread, and all of them wait for their GPUs after the same transfers. After ncclCommAbort, which
// any thread may call, it ends and leaves bytes 0xff. ncclCommDestroy fails while transfers of the communicator are
// queued or part of a graph, for which the library waits.
//
// A call that fails returns ncclInvalidArgument or ncclInvalidUsage; ncclGetLastError says why.
//
//   SimNcclNetwork network;
//   SimNccl library(network, gpu);  // in each rank's thread
//   NcclCommunicator::Create(..., library.table());
class SimNccl {
 public:
  SimNccl(SimNcclNetwork& network, SimGpu& gpu);
  SimNccl(const SimNccl&) = delete;
  SimNccl& operator=(const SimNccl&) = delete;
  // The GPU has no queued transfers.
  ~SimNccl();

  // The functions. They may be called as long as this object lives.
  const nccl::NcclTable& table() const;

  // Keeps calls in progress, as if another rank did not answer while it is connected.
  void StallCalls();

  // Makes ncclCommGetAsyncError report `error`.
  void SetAsyncError(nccl::ncclResult_t error);

  // Returns the text of the last call that failed, "" if there was none.
  std::string LastViolation() const;
  // Returns the number of transfers that were queued or recorded; those between ncclGroupStart and ncclGroupEnd are
  // one.
  int64_t num_transfers() const;
  // Returns the number of communicators that are neither destroyed nor aborted.
  int num_communicators() const;
  // Returns the number of communicators that were aborted.
  int num_aborted() const;

 private:
  const std::unique_ptr<NcclState> state_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_NCCL_SIM_NCCL_H_
