// SPDX-License-Identifier: Apache-2.0

#include "testing/cuda/open_backend.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/compiler/kernel_cache.h"
#include "kernels/cuda/open_cuda_device.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/testing/sim_device.h"

namespace cotan::testing {
namespace {

absl::StatusOr<Backend> OpenGpu() {
  static const absl::StatusOr<std::unique_ptr<Device>>& gpu =
      *new absl::StatusOr<std::unique_ptr<Device>>(OpenCudaDevice());
  if (!gpu.ok()) return gpu.status();
  return Backend{.kernels = &CudaKernels(), .device = gpu->get()};
}

absl::StatusOr<Backend> OpenSimulatedGpu() {
  using cuda::testing::SimDevice;
  static const absl::StatusOr<std::unique_ptr<SimDevice>>& gpu = *new absl::StatusOr<std::unique_ptr<SimDevice>>(
      SimDevice::Create({.race_checks = 1, .kernel_cache = cuda::KernelCache::DefaultFolder()}));
  if (!gpu.ok()) return gpu.status();
  return Backend{.kernels = &CudaKernels(), .device = &(*gpu)->device()};
}

}  // namespace

absl::StatusOr<Backend> OpenBackend(absl::string_view device) {
  if (device == "cpu") return Backend{.kernels = &CpuKernels()};
  if (device == "cuda") return OpenGpu();
  if (device == "cuda_sim") return OpenSimulatedGpu();
  return absl::InvalidArgumentError(absl::StrCat("--device=", device, ": known are cpu, cuda and cuda_sim"));
}

}  // namespace cotan::testing
