// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cublaslt/cublaslt.h"

#include "base/status_macros.h"

namespace cotan::cuda {

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Create(const cublaslt::CublasLtTable& table,
                                                           const driver::DriverTable& driver, F32Precision precision) {
  std::unique_ptr<CublasLt> result(new CublasLt(table, driver, precision));
  cublaslt::cublasLtHandle_t handle = nullptr;
  COTAN_CUBLASLT_RETURN_IF_ERROR(table, cublasLtCreate(&handle));
  result->handle_ = cublaslt::OwnedHandle(handle, {&table});
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver, cuMemAlloc_v2(&result->memory_, kLanes * kLaneBytes));
  return result;
}

CublasLt::~CublasLt() {
  if (memory_ != 0) driver_.cuMemFree_v2(memory_);
}

}  // namespace cotan::cuda
