// SPDX-License-Identifier: Apache-2.0

#include "examples/common/backend.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/open_cuda_device.h"
#include "kernels/cuda/register_cuda.h"

namespace cotan::examples {

absl::StatusOr<Backend> OpenBackend(absl::string_view device) {
  if (device == "cpu") return Backend{.kernels = &CpuKernels()};
  if (device != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("--device=", device, ": known are cpu and cuda"));
  }
  static const absl::StatusOr<std::unique_ptr<Device>>& gpu =
      *new absl::StatusOr<std::unique_ptr<Device>>(OpenCudaDevice());
  COTAN_RETURN_IF_ERROR(gpu.status());
  return Backend{.kernels = &CudaKernels(), .device = gpu->get()};
}

}  // namespace cotan::examples
