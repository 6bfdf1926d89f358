// SPDX-License-Identifier: Apache-2.0

// The libraries of a device without a device: a simulated cuBLASLt that computes at once.
#ifndef COTAN_KERNELS_CUDA_SIM_CUBLASLT_FAKE_LIBRARIES_H_
#define COTAN_KERNELS_CUDA_SIM_CUBLASLT_FAKE_LIBRARIES_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "kernels/cuda/cublaslt/cublaslt.h"
#include "kernels/cuda/launch/library_call.h"
#include "kernels/cuda/sim/cublaslt/sim_cublaslt.h"
#include "kernels/cuda/sim/device_memory.h"

namespace cotan::cuda::sim {

// Calls run when they are queued, on `memory`, which is borrowed. Of the driver only allocation and copies on the
// device work.
class FakeLibraries final : public VendorLibraries {
 public:
  explicit FakeLibraries(DeviceMemory& memory, F32Precision precision = F32Precision::kIeee)
      : precision_(precision),
        library_([&memory](driver::CUstream, absl::string_view, auto function) { return function(memory); }) {
    driver_.cuMemAlloc_v2 = [&memory](driver::CUdeviceptr* address, size_t bytes) {
      const absl::StatusOr<uint64_t> block = memory.Allocate(bytes, "workspace");
      if (!block.ok()) return driver::CUDA_ERROR_OUT_OF_MEMORY;
      *address = *block;
      return driver::CUDA_SUCCESS;
    };
    driver_.cuMemFree_v2 = [&memory](driver::CUdeviceptr address) {
      return memory.Free(address).ok() ? driver::CUDA_SUCCESS : driver::CUDA_ERROR_INVALID_VALUE;
    };
    driver_.cuMemcpyDtoDAsync_v2 = [&memory](driver::CUdeviceptr to, driver::CUdeviceptr from, size_t bytes,
                                             driver::CUstream) {
      return memory.Copy(to, from, bytes).ok() ? driver::CUDA_SUCCESS : driver::CUDA_ERROR_INVALID_VALUE;
    };
    driver_.cuGetErrorString = [](driver::CUresult, const char** text) {
      *text = "out of memory";
      return driver::CUDA_SUCCESS;
    };
    driver_.cuGetErrorName = [](driver::CUresult, const char** text) {
      *text = "CUDA_ERROR_OUT_OF_MEMORY";
      return driver::CUDA_SUCCESS;
    };
  }

  const driver::DriverTable& driver() const override { return driver_; }
  driver::CUstream stream() const override { return nullptr; }
  absl::StatusOr<CublasLt*> cublaslt() override {
    if (cublaslt_ == nullptr) {
      COTAN_ASSIGN_OR_RETURN(cublaslt_, CublasLt::Create(library_.table(), driver_, precision_));
    }
    return cublaslt_.get();
  }
  absl::StatusOr<Cudnn*> cudnn() override { return absl::UnavailableError("there is no cuDNN"); }

  SimCublasLt& library() { return library_; }

 private:
  const F32Precision precision_;
  driver::DriverTable driver_;
  SimCublasLt library_;
  std::unique_ptr<CublasLt> cublaslt_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUBLASLT_FAKE_LIBRARIES_H_
