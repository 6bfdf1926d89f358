// SPDX-License-Identifier: Apache-2.0

#include "testing/cuda/tool_group.h"

#include "base/status_macros.h"

namespace cotan::testing {

absl::StatusOr<std::unique_ptr<ToolGroup>> ToolGroup::Create(const ToolDevice& device) {
  std::unique_ptr<ToolGroup> group(new ToolGroup());
  if (&device.device() == &HostDevice()) return group;
  if (device.simulated() != nullptr) {
    group->simulated_ = std::make_unique<cuda::sim::SimNccl>(group->network_, device.simulated()->gpu());
    COTAN_ASSIGN_OR_RETURN(group->nccl_,
                           NcclCommunicator::Create(group->control_, device.device(), &group->simulated_->table()));
  } else {
    COTAN_ASSIGN_OR_RETURN(group->nccl_, NcclCommunicator::Create(group->control_, device.device()));
  }
  return group;
}

Communicator& ToolGroup::communicator() {
  if (nccl_ == nullptr) return control_;
  return *nccl_;
}

}  // namespace cotan::testing
