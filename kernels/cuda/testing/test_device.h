// SPDX-License-Identifier: Apache-2.0

// The device of tests that run on a simulated GPU, and on a GPU where there is one.
#ifndef COTAN_KERNELS_CUDA_TESTING_TEST_DEVICE_H_
#define COTAN_KERNELS_CUDA_TESTING_TEST_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/testing/sim_device.h"

namespace cotan::cuda::testing {

// A simulated GPU; with COTAN_TEST_DEVICE=cuda in the environment the first GPU of this machine. Tests that look into
// the simulated one check simulated(), or skip if IsGpu(). Example:
//
//   COTAN_ASSIGN_OR_RETURN(std::unique_ptr<TestDevice> gpu, TestDevice::Create());
//   Session::Create(program, {.kernels = &CudaKernels(), .device = &gpu->device()});
class TestDevice {
 public:
  // Returns whether COTAN_TEST_DEVICE is "cuda".
  static bool IsGpu();

  // On a GPU only `tf32`, `records_branches`, `kernels_begin_early` and `kernel_cache` have an effect.
  // InvalidArgument: COTAN_TEST_DEVICE is neither "cuda" nor "cuda_sim". Errors of SimDevice::Create() and
  // OpenCudaDevice().
  static absl::StatusOr<std::unique_ptr<TestDevice>> Create(const SimDevice::Options& options = {});

  CudaDevice& device() { return *device_; }
  // Null on a GPU.
  SimDevice* simulated() { return simulated_.get(); }

 private:
  TestDevice() = default;

  std::unique_ptr<SimDevice> simulated_;
  std::unique_ptr<Device> gpu_;
  CudaDevice* device_ = nullptr;
};

}  // namespace cotan::cuda::testing

#endif  // COTAN_KERNELS_CUDA_TESTING_TEST_DEVICE_H_
