// SPDX-License-Identifier: Apache-2.0

// The group of one rank of the tools that run on a machine with a GPU: programs that average gradients run in it.
#ifndef COTAN_TESTING_CUDA_TOOL_GROUP_H_
#define COTAN_TESTING_CUDA_TOOL_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/communicator.h"
#include "kernels/cuda/sim/nccl/sim_nccl.h"
#include "runtime/distributed/nccl/nccl_communicator.h"
#include "runtime/distributed/single_rank.h"
#include "testing/cuda/tool_device.h"

namespace cotan::testing {

class ToolGroup {
 public:
  // Makes a group that sends data by NCCL on a GPU, by a simulated NCCL on a simulated GPU, and not at all on a CPU.
  // `device` outlives the result. Errors are those of NcclCommunicator::Create().
  static absl::StatusOr<std::unique_ptr<ToolGroup>> Create(const ToolDevice& device);

  Communicator& communicator();

 private:
  ToolGroup() = default;

  // In the order in which one is made from the other.
  SingleRank control_;
  cuda::sim::SimNcclNetwork network_;
  std::unique_ptr<cuda::sim::SimNccl> simulated_;  // null unless the GPU is simulated
  std::unique_ptr<NcclCommunicator> nccl_;         // null on a CPU
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_CUDA_TOOL_GROUP_H_
