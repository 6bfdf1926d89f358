// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/register_cuda.h"

#include "base/status_macros.h"
#include "kernels/cuda/expr.h"
#include "kernels/cuda/matmul.h"

namespace cotan {

absl::Status RegisterCudaKernels(KernelRegistry& registry) {
  using serialization::Op;
  for (DType dtype : {DType::kFloat32, DType::kBool}) {
    COTAN_RETURN_IF_ERROR(registry.Register(DeviceType::kCuda, Op::kExpr, dtype, cuda::PrepareExpr));
  }
  for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    COTAN_RETURN_IF_ERROR(registry.Register(DeviceType::kCuda, Op::kMatmul, dtype, cuda::PrepareMatmul));
  }
  return absl::OkStatus();
}

}  // namespace cotan
