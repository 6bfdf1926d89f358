// SPDX-License-Identifier: Apache-2.0

// Ranks with simulated GPUs, connected by simulated NCCL.
#ifndef COTAN_RUNTIME_DISTRIBUTED_TESTING_GPU_RANKS_H_
#define COTAN_RUNTIME_DISTRIBUTED_TESTING_GPU_RANKS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/nccl/nccl_table.h"
#include "kernels/cuda/sim/nccl/sim_nccl.h"
#include "kernels/cuda/testing/sim_device.h"
#include "runtime/distributed/nccl/nccl_communicator.h"
#include "runtime/distributed/testing/thread_group.h"

namespace cotan::testing {

// A rank, which one thread uses.
class GpuRank {
 public:
  GpuRank(ThreadGroup& group, cuda::sim::SimNcclNetwork& network, int number,
          const cuda::testing::SimDevice::Options& options);

  // Makes the communicator, with the simulated library or another one. Errors of NcclCommunicator::Create().
  absl::Status Join(const NcclOptions& options);
  absl::Status Join(const absl::StatusOr<const cuda::nccl::NcclTable*>& table, const NcclOptions& options = {});
  void Leave() { communicator_ = nullptr; }

  int number() const { return control_.rank(); }
  int size() const { return control_.size(); }
  cuda::CudaDevice& device() { return gpu_->device(); }
  cuda::sim::SimGpu& gpu() { return gpu_->gpu(); }
  cuda::sim::SimNccl& nccl() { return nccl_; }
  NcclCommunicator& communicator() { return *communicator_; }

 private:
  GroupCommunicator& control_;
  const std::unique_ptr<cuda::testing::SimDevice> gpu_;
  cuda::sim::SimNccl nccl_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

// The ranks of a group.
class GpuRanks {
 public:
  explicit GpuRanks(int count, const cuda::testing::SimDevice::Options& options = {});

  ThreadGroup& group() { return group_; }

  // Runs a function for all ranks, each in a thread.
  void Run(const std::function<void(GpuRank&)>& function);
  // The same for ranks that have joined, and leave after it. Expects that NCCL then has no communicator.
  void RunJoined(const NcclOptions& options, const std::function<void(GpuRank&)>& function);

 private:
  ThreadGroup group_;
  cuda::sim::SimNcclNetwork network_;
  std::vector<std::unique_ptr<GpuRank>> ranks_;
};

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_DISTRIBUTED_TESTING_GPU_RANKS_H_
