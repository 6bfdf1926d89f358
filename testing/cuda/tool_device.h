// SPDX-License-Identifier: Apache-2.0

// Devices of the tools that run on a machine with a GPU. Unlike those of open_backend they have options and are closed
// again, and a simulated GPU can be looked into.
#ifndef COTAN_TESTING_CUDA_TOOL_DEVICE_H_
#define COTAN_TESTING_CUDA_TOOL_DEVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/api/device.h"
#include "kernels/api/registry.h"
#include "kernels/cuda/testing/sim_device.h"

namespace cotan::testing {

struct ToolDeviceOptions {
  // "cpu", "cuda" (the first GPU) or "cuda_sim".
  std::string name = "cuda_sim";
  // As CudaOptions::tf32.
  bool tf32 = false;
  // As CudaOptions::programmatic_launch.
  bool programmatic_launch = true;
  // As CudaOptions::parallel_branches.
  bool parallel_branches = true;
  // For a simulated GPU: draws the order of streams, blocks and warps; 0: in order.
  uint64_t seed = 0;
  // Folder of kernels that were compiled on this machine; "" = none. Unset: as CudaOptions::kernel_cache.
  std::optional<std::string> kernel_cache = {};
};

class ToolDevice {
 public:
  // InvalidArgument: there is no device of this name. Unavailable: the machine has no GPU, or no NVRTC for a simulated
  // one.
  static absl::StatusOr<ToolDevice> Open(const ToolDeviceOptions& options);

  const KernelRegistry& kernels() const { return *kernels_; }
  Device& device() const { return *device_; }
  // Null unless the device is a simulated GPU.
  cuda::testing::SimDevice* simulated() const { return simulated_.get(); }

  // Returns the bytes that are in use on the whole GPU; no value if the device is not a GPU.
  std::optional<int64_t> UsedGpuBytes() const;

 private:
  ToolDevice() = default;

  const KernelRegistry* kernels_ = nullptr;
  Device* device_ = nullptr;
  std::unique_ptr<Device> gpu_;
  std::unique_ptr<cuda::testing::SimDevice> simulated_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_CUDA_TOOL_DEVICE_H_
