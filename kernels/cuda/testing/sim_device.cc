// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/testing/sim_device.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/cublaslt/cublaslt.h"
#include "kernels/cuda/cudnn/cudnn.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"

namespace cotan::cuda::testing {

absl::StatusOr<std::unique_ptr<SimDevice>> SimDevice::Create(const Options& options) {
  COTAN_RETURN_IF_ERROR(nvrtc::NvrtcTable::Get().status());
  std::unique_ptr<SimDevice> result(new SimDevice);
  result->gpu_ = std::make_unique<sim::SimGpu>(sim::SimGpu::Options{.compute_capability = options.compute_capability,
                                                                    .multiprocessors = options.multiprocessors,
                                                                    .memory_bytes = options.memory_bytes,
                                                                    .seed = options.seed,
                                                                    // ToHost() copies gaps between elements, too.
                                                                    .check_unwritten_copies = false,
                                                                    .race_checks = options.race_checks,
                                                                    .on_violation = options.on_violation});
  const auto enqueue = [gpu = result->gpu_.get()](driver::CUstream stream, absl::string_view label,
                                                  std::function<absl::Status(sim::DeviceMemory&)> function) {
    return gpu->EnqueueHostFunction(stream, label, std::move(function));
  };
  result->cublaslt_ = std::make_unique<sim::SimCublasLt>(enqueue);
  if (absl::StatusOr<std::unique_ptr<sim::SimCudnn>> cudnn = sim::SimCudnn::Create(enqueue); cudnn.ok()) {
    result->cudnn_ = *std::move(cudnn);
  }
  Vendor vendor;
  vendor.driver = &result->gpu_->table();
  vendor.tf32 = options.tf32;
  vendor.executes_ptx = true;
  vendor.keeps_freed_memory = options.keeps_freed_memory;
  vendor.records_work = options.records_work;
  vendor.records_branches = options.records_branches;
  vendor.kernels_begin_early = options.kernels_begin_early;
  const F32Precision precision = options.tf32 ? F32Precision::kTf32 : F32Precision::kIeee;
  vendor.make_cublaslt = [library = result->cublaslt_.get(),
                          precision](VendorLibraries& libraries) -> absl::StatusOr<std::shared_ptr<CublasLt>> {
    return CublasLt::Create(library->table(), libraries.driver(), precision);
  };
  vendor.make_cudnn = [library = result->cudnn_.get(),
                       tf32 = options.tf32](VendorLibraries& libraries) -> absl::StatusOr<std::shared_ptr<Cudnn>> {
    if (library == nullptr) return absl::UnavailableError("cuDNN is not installed");
    return Cudnn::Create(library->table(), libraries.driver(), libraries.stream(), tf32);
  };
  COTAN_ASSIGN_OR_RETURN(result->device_, CudaDevice::Create(vendor, {.kernel_cache = options.kernel_cache}));
  return result;
}

}  // namespace cotan::cuda::testing
