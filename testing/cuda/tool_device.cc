// SPDX-License-Identifier: Apache-2.0

#include "testing/cuda/tool_device.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/compiler/kernel_cache.h"
#include "kernels/cuda/open_cuda_device.h"
#include "kernels/cuda/register_cuda.h"

namespace cotan::testing {
absl::StatusOr<ToolDevice> ToolDevice::Open(const ToolDeviceOptions& options) {
  ToolDevice result;
  result.kernels_ = &CudaKernels();
  if (options.name == "cpu") {
    result.kernels_ = &CpuKernels();
    result.device_ = &HostDevice();
  } else if (options.name == "cuda") {
    COTAN_ASSIGN_OR_RETURN(result.gpu_, OpenCudaDevice({.tf32 = options.tf32,
                                                        .programmatic_launch = options.programmatic_launch,
                                                        .parallel_branches = options.parallel_branches,
                                                        .kernel_cache = options.kernel_cache}));
    result.device_ = result.gpu_.get();
  } else if (options.name == "cuda_sim") {
    using cuda::testing::SimDevice;
    SimDevice::Options simulated;
    simulated.seed = options.seed;
    simulated.tf32 = options.tf32;
    simulated.records_branches = options.parallel_branches;
    simulated.kernels_begin_early = options.programmatic_launch;
    simulated.kernel_cache = options.kernel_cache.value_or(cuda::KernelCache::DefaultFolder());
    simulated.on_violation = [](absl::string_view text) {
      std::fprintf(stderr, "simulated GPU: %s\n", std::string(text).c_str());
    };
    COTAN_ASSIGN_OR_RETURN(result.simulated_, SimDevice::Create(simulated));
    result.device_ = &result.simulated_->device();
  } else {
    return absl::InvalidArgumentError(absl::StrCat("--device=", options.name, ": known are cpu, cuda and cuda_sim"));
  }
  return result;
}

std::optional<int64_t> ToolDevice::UsedGpuBytes() const {
  if (gpu_ == nullptr) return std::nullopt;
  // The device has loaded the driver, and its context is current on the thread that opened it.
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return std::nullopt;
  const auto get_info = reinterpret_cast<int (*)(size_t*, size_t*)>(dlsym(driver, "cuMemGetInfo_v2"));
  size_t free_bytes = 0, total_bytes = 0;
  const bool ok = get_info != nullptr && get_info(&free_bytes, &total_bytes) == 0;
  dlclose(driver);
  if (!ok) return std::nullopt;
  return static_cast<int64_t>(total_bytes - free_bytes);
}

}  // namespace cotan::testing
