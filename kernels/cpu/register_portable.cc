#include "kernels/cpu/register_portable.h"

#include "base/status_macros.h"
#include "kernels/cpu/portable.h"
#include "kernels/cpu/register_own_kernels.h"

namespace cotan {
namespace {

using serialization::Op;

constexpr DType kF32[] = {DType::kFloat32};

constexpr cpu::KernelEntry kEntries[] = {
    {Op::kMatmul, kF32, cpu::MakePortableMatmul},
    {Op::kConvolution, kF32, cpu::MakePortableConvolution},
    {Op::kConvolutionBackwardInput, kF32, cpu::MakePortableConvolution},
    {Op::kConvolutionBackwardWeight, kF32, cpu::MakePortableConvolution},
};

}  // namespace

absl::Status RegisterPortableKernels(KernelRegistry& registry) {
  COTAN_RETURN_IF_ERROR(cpu::RegisterEntries(kEntries, registry));
  return cpu::RegisterOwnKernels(registry);
}

}  // namespace cotan
