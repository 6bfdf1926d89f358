// SPDX-License-Identifier: Apache-2.0

// A GPU of this machine as a device of sessions.
#ifndef COTAN_KERNELS_CUDA_OPEN_CUDA_DEVICE_H_
#define COTAN_KERNELS_CUDA_OPEN_CUDA_DEVICE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "kernels/api/pinned_memory.h"

namespace cotan {

struct CudaOptions {
  // GPU number, counted among those that CUDA_VISIBLE_DEVICES leaves visible.
  int ordinal = 0;
  // Computes large products of f32 with operands rounded to TF32 (10 fraction bits) on tensor cores: those of cuBLASLt,
  // and convolutions of cuDNN where it prefers a TF32 engine. Sums and biases stay f32. False: IEEE f32.
  bool tf32 = false;
  // Lets a kernel begin while the one in front of it ends (programmatic dependent launch), on GPUs of compute
  // capability 9.0 and later. Results are the same. False: for measurements.
  bool programmatic_launch = true;
  // Lets independent ops of a recorded step run at the same time. Results are the same. False: for measurements.
  bool parallel_branches = true;
  // Folder of kernels that were compiled on this machine; "" = none. Unset: $COTAN_KERNEL_CACHE, else
  // $XDG_CACHE_HOME/cotan/kernels, else $HOME/.cache/cotan/kernels.
  std::optional<std::string> kernel_cache;
};

// Opens a GPU with the installed driver and libraries, which are looked for with dlopen now or when they are first
// used: libcuda.so.1, libcublasLt.so.13, libcudnn.so.9, libnvrtc.so.13. Example:
//
//   COTAN_ASSIGN_OR_RETURN(std::unique_ptr<cotan::Device> gpu, cotan::OpenCudaDevice());
//   Session::Create(program, {.kernels = &cotan::CudaKernels(), .device = gpu.get()});
//
// Unavailable: there is no GPU or no driver, or the driver is too old.
// InvalidArgument: `ordinal` is not below the number of visible GPUs.
absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions& options = {});

// Returns the host memory that `device` copies to and from without the host, as for autograd::OffloadToHost()
// (runtime/autograd/host_offload.h). It belongs to the device.
// InvalidArgument: `device` is not a CUDA device.
absl::StatusOr<PinnedMemory*> CudaPinnedMemory(Device& device);

}  // namespace cotan

#endif  // COTAN_KERNELS_CUDA_OPEN_CUDA_DEVICE_H_
