// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr.h"

#include <algorithm>

#include "base/status_macros.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/expr_compile.h"
#include "kernels/cuda/expr_launch.h"
#include "kernels/cuda/status.h"

namespace cotan::cuda {
namespace {

class ExprKernel final : public Kernel {
 public:
  ExprKernel(CudaDevice& device, const DeviceExpr& program, size_t num_inputs)
      : device_(device), program_(program), num_inputs_(num_inputs) {}

  absl::Status Run(const KernelArgs& args) override {
    if (program_.num_elements == 0) return absl::OkStatus();
    ExprPointers pointers = {};
    std::copy_n(args.inputs, num_inputs_, pointers.inputs);
    std::copy_n(args.outputs, program_.num_outputs, pointers.outputs);
    COTAN_RETURN_IF_ERROR(device_.Activate());
    COTAN_CUDA_RETURN_IF_ERROR(LaunchExpr(program_, pointers, device_.stream()));
    return absl::OkStatus();
  }

 private:
  CudaDevice& device_;
  const DeviceExpr program_;
  const size_t num_inputs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareExpr(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(CudaDevice * device, AsCudaDevice(request.device));
  COTAN_ASSIGN_OR_RETURN(DeviceExpr program, CompileExpr(request));
  return std::make_unique<ExprKernel>(*device, program, request.inputs.size());
}

}  // namespace cotan::cuda
