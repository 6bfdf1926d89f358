// SPDX-License-Identifier: Apache-2.0

// usage: join_nccl
// Makes a group of one rank with the installed NCCL on the first GPU.
#include <iostream>
#include <memory>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "kernels/api/device.h"
#include "kernels/cuda/open_cuda_device.h"
#include "runtime/distributed/nccl/nccl_communicator.h"
#include "runtime/distributed/single_rank.h"

namespace cotan {
namespace {

absl::Status Join() {
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<Device> gpu, OpenCudaDevice());
  SingleRank control;
  return NcclCommunicator::Create(control, *gpu).status();
}

}  // namespace
}  // namespace cotan

int main() {
  const absl::Status status = cotan::Join();
  std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
