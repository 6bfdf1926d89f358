#include "kernels/cpu/register_cpu.h"

#include "base/status_macros.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/register_own_kernels.h"

namespace cotan {
namespace {

using serialization::Op;

constexpr DType kF32[] = {DType::kFloat32};

constexpr cpu::KernelEntry kEntries[] = {
    {Op::kMatmul, kF32, cpu::MakeMatmul},
    {Op::kConvolution, kF32, cpu::MakeConvolution},
    {Op::kConvolutionBackwardInput, kF32, cpu::MakeConvolutionBackwardInput},
    {Op::kConvolutionBackwardWeight, kF32, cpu::MakeConvolutionBackwardWeight},
};

}  // namespace

absl::Status RegisterCpuKernels(KernelRegistry& registry) {
  COTAN_RETURN_IF_ERROR(cpu::RegisterEntries(kEntries, registry));
  return cpu::RegisterOwnKernels(registry);
}

const KernelRegistry& CpuKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    // Only a kernel that is listed twice could make it fail; the test of the
    // list would tell.
    RegisterCpuKernels(*kernels).IgnoreError();
    return kernels;
  }();
  return registry;
}

}  // namespace cotan
