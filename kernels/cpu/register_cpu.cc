// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/register_cpu.h"

#ifdef __x86_64__
#include "base/status_macros.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cpu/matmul/computed_operand.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/register_own_kernels.h"
#else
#include "kernels/cpu/register_portable.h"
#endif

namespace cotan {

#ifdef __x86_64__
namespace {

using serialization::Op;

constexpr DType kFloats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

constexpr cpu::KernelEntry kEntries[] = {
    {Op::kMatmul, kFloats, cpu::MakeMatmul},
    {Op::kConvolution, kFloats, cpu::MakeConvolution},
    {Op::kConvolutionBackwardInput, kFloats, cpu::MakeConvolutionBackwardInput},
    {Op::kConvolutionBackwardWeight, kFloats, cpu::MakeConvolutionBackwardWeight},
};

}  // namespace

absl::Status RegisterCpuKernels(KernelRegistry& registry) {
  COTAN_RETURN_IF_ERROR(cpu::RegisterEntries(kEntries, registry));
  COTAN_RETURN_IF_ERROR(registry.RegisterComputedOperands(
      DeviceType::kCpu, {cpu::TakesComputedOperand, cpu::MakeMatmulOfComputedOperand}));
  return cpu::RegisterOwnKernels(registry);
}
#else
absl::Status RegisterCpuKernels(KernelRegistry& registry) { return RegisterPortableKernels(registry); }
#endif

const KernelRegistry& CpuKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    // It fails only if a kernel is listed twice; register_cpu_test.cc checks that.
    RegisterCpuKernels(*kernels).IgnoreError();
    return kernels;
  }();
  return registry;
}

}  // namespace cotan
