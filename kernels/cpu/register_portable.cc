// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/register_portable.h"

#include "base/status_macros.h"
#include "kernels/cpu/half_precision/half_precision.h"
#include "kernels/cpu/matmul/computed_operand.h"
#include "kernels/cpu/matmul/matmul_epilogue.h"
#include "kernels/cpu/portable/portable.h"
#include "kernels/cpu/register_own_kernels.h"

namespace cotan {
namespace {

using serialization::Op;

constexpr DType kF32[] = {DType::kFloat32};
constexpr DType kHalves[] = {DType::kFloat16, DType::kBFloat16};

// The epilogue is an expression of the op's own dtype, so only the product is converted to f32.
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmul(const KernelRequest& request) {
  if (request.op.matmul().has_epilogue()) return cpu::MakeMatmulEpilogue(request, MakeMatmul);
  return cpu::MakeWidenedKernel(request, cpu::MakePortableMatmul);
}

constexpr cpu::KernelEntry kEntries[] = {
    {Op::kMatmul, kF32, cpu::MakePortableMatmul},
    {Op::kConvolution, kF32, cpu::MakePortableConvolution},
    {Op::kConvolutionBackwardInput, kF32, cpu::MakePortableConvolution},
    {Op::kConvolutionBackwardWeight, kF32, cpu::MakePortableConvolution},
    {Op::kMatmul, kHalves, MakeMatmul},
    {Op::kConvolution, kHalves, cpu::MakeWidened<cpu::MakePortableConvolution>},
    {Op::kConvolutionBackwardInput, kHalves, cpu::MakeWidened<cpu::MakePortableConvolution>},
    {Op::kConvolutionBackwardWeight, kHalves, cpu::MakeWidened<cpu::MakePortableConvolution>},
};

}  // namespace

absl::Status RegisterPortableKernels(KernelRegistry& registry) {
  COTAN_RETURN_IF_ERROR(cpu::RegisterEntries(kEntries, registry));
  COTAN_RETURN_IF_ERROR(registry.RegisterComputedOperands(
      DeviceType::kCpu, {cpu::TakesComputedOperand, cpu::MakePortableMatmulOfComputedOperand}));
  return cpu::RegisterOwnKernels(registry);
}

}  // namespace cotan
