// SPDX-License-Identifier: Apache-2.0

// The CUDA backend on a simulated GPU.
#ifndef COTAN_KERNELS_CUDA_TESTING_SIM_DEVICE_H_
#define COTAN_KERNELS_CUDA_TESTING_SIM_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/sim/cublaslt/sim_cublaslt.h"
#include "kernels/cuda/sim/cudnn/sim_cudnn.h"
#include "kernels/cuda/sim/sim_gpu.h"

namespace cotan::cuda::testing {

// A CudaDevice on a SimGpu, with simulated cuBLASLt and, if the library is installed, cuDNN. Kernels are compiled by
// NVRTC to PTX and interpreted, with all checks. Freed memory is not used again by default. Example:
//
//   COTAN_ASSIGN_OR_RETURN(std::unique_ptr<SimDevice> gpu, SimDevice::Create({}));
//   Session::Create(program, {.kernels = &CudaKernels(), .device = &gpu->device()});
class SimDevice {
 public:
  struct Options {
    // Draws the order of streams, blocks and warps; 0: in order.
    uint64_t seed = 0;
    int compute_capability = 90;
    // As SimGpu::Options::multiprocessors.
    int multiprocessors = 132;
    // As CudaOptions::tf32.
    bool tf32 = false;
    // As Vendor::records_work.
    bool records_work = true;
    // As Vendor::records_branches.
    bool records_branches = true;
    // As Vendor::kernels_begin_early.
    bool kernels_begin_early = true;
    // As Vendor::keeps_freed_memory. True: addresses repeat from step to step, and use after free is not seen.
    bool keeps_freed_memory = false;
    uint64_t memory_bytes = uint64_t{16} << 30;
    // As SimGpu::Options::race_checks.
    int race_checks = 0;
    // Folder of compiled kernels; "" = none.
    std::string kernel_cache = {};
    // As SimGpu::Options::on_violation.
    std::function<void(absl::string_view)> on_violation = nullptr;
  };

  // Unavailable: NVRTC is not installed.
  static absl::StatusOr<std::unique_ptr<SimDevice>> Create(const Options& options);

  CudaDevice& device() { return *device_; }
  sim::SimGpu& gpu() { return *gpu_; }
  sim::SimCublasLt& cublaslt() { return *cublaslt_; }
  // Null if cuDNN is not installed; the backend then uses its own convolutions.
  sim::SimCudnn* cudnn() { return cudnn_.get(); }

 private:
  SimDevice() = default;

  std::unique_ptr<sim::SimGpu> gpu_;
  std::unique_ptr<sim::SimCublasLt> cublaslt_;
  std::unique_ptr<sim::SimCudnn> cudnn_;
  std::unique_ptr<CudaDevice> device_;  // last, so that it goes first
};

}  // namespace cotan::cuda::testing

#endif  // COTAN_KERNELS_CUDA_TESTING_SIM_DEVICE_H_
