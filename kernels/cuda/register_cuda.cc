// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/register_cuda.h"

#include <memory>

#include "base/status_macros.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_kernel.h"
#include "kernels/cuda/plan_op.h"

namespace cotan {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(cuda::CudaDevice * device, cuda::AsCudaDevice(request.device));
  COTAN_ASSIGN_OR_RETURN(const cuda::CudaOp* op, cuda::FindCudaOp(request));
  const bool prefers_own = op->prefers_own != nullptr && op->prefers_own(request, device->tf32());
  COTAN_ASSIGN_OR_RETURN(const cuda::KernelPlan plan, prefers_own ? op->own_kernels(request) : op->plan(request));
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = cuda::CudaKernel::Create(*device, plan, request.name, {&request, 1});
  const bool lacks_library = absl::IsUnavailable(kernel.status()) || absl::IsUnimplemented(kernel.status());
  if (!lacks_library || op->own_kernels == nullptr) return kernel;
  COTAN_ASSIGN_OR_RETURN(const cuda::KernelPlan own, op->own_kernels(request));
  return cuda::CudaKernel::Create(*device, own, request.name, {&request, 1});
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(absl::Span<const KernelRequest> requests) {
  COTAN_ASSIGN_OR_RETURN(cuda::CudaDevice * device, cuda::AsCudaDevice(requests[0].device));
  COTAN_ASSIGN_OR_RETURN(const cuda::KernelPlan plan, cuda::PlanOpGroup(requests));
  return cuda::CudaKernel::Create(*device, plan, "", requests);
}

}  // namespace

absl::Status RegisterCudaKernels(KernelRegistry& registry) {
  for (const cuda::CudaOp& op : cuda::CudaOps()) {
    for (const DType dtype : op.dtypes) {
      COTAN_RETURN_IF_ERROR(registry.Register(DeviceType::kCuda, op.kind, dtype, Prepare));
    }
  }
  return registry.RegisterGroup(DeviceType::kCuda, PrepareGroup);
}

const KernelRegistry& CudaKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    // It fails only if a kernel is listed twice; register_cuda_test.cc checks that.
    RegisterCudaKernels(*kernels).IgnoreError();
    return kernels;
  }();
  return registry;
}

}  // namespace cotan
