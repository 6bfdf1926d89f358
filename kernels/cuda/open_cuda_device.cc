// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/open_cuda_device.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/compiler/kernel_cache.h"
#include "kernels/cuda/cublaslt/cublaslt.h"
#include "kernels/cuda/cublaslt/cublaslt_table.h"
#include "kernels/cuda/cudnn/cudnn.h"
#include "kernels/cuda/cudnn/cudnn_table.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan {

absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions& options) {
  cuda::Vendor vendor;
  COTAN_ASSIGN_OR_RETURN(vendor.driver, cuda::driver::DriverTable::Get());
  vendor.records_branches = options.parallel_branches;
  vendor.kernels_begin_early = options.programmatic_launch;
  const cuda::F32Precision precision = options.tf32 ? cuda::F32Precision::kTf32 : cuda::F32Precision::kIeee;
  vendor.tf32 = options.tf32;
  vendor.make_cublaslt =
      [precision](cuda::VendorLibraries& libraries) -> absl::StatusOr<std::shared_ptr<cuda::CublasLt>> {
    COTAN_ASSIGN_OR_RETURN(const cuda::cublaslt::CublasLtTable* table, cuda::cublaslt::CublasLtTable::Get());
    return cuda::CublasLt::Create(*table, libraries.driver(), precision);
  };
  vendor.make_cudnn =
      [tf32 = options.tf32](cuda::VendorLibraries& libraries) -> absl::StatusOr<std::shared_ptr<cuda::Cudnn>> {
    COTAN_ASSIGN_OR_RETURN(const cuda::cudnn::CudnnTable* table, cuda::cudnn::CudnnTable::Get());
    return cuda::Cudnn::Create(*table, libraries.driver(), libraries.stream(), tf32);
  };
  return cuda::CudaDevice::Create(
      vendor,
      {.ordinal = options.ordinal, .kernel_cache = options.kernel_cache.value_or(cuda::KernelCache::DefaultFolder())});
}

absl::StatusOr<PinnedMemory*> CudaPinnedMemory(Device& device) { return cuda::AsCudaDevice(&device); }

}  // namespace cotan
