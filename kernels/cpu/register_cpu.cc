#include "kernels/cpu/register_cpu.h"

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/copy.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/cpu/gather.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pool.h"

namespace cotan {
namespace {

using serialization::Op;

constexpr DType kAll[] = {DType::kBool,    DType::kUInt8,   DType::kInt8,      DType::kInt16,
                          DType::kInt32,   DType::kInt64,   DType::kFloat16,   DType::kBFloat16,
                          DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};
constexpr DType kF32[] = {DType::kFloat32};
constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64};
constexpr DType kSummable[] = {DType::kUInt8, DType::kInt8,    DType::kInt16,  DType::kInt32,
                               DType::kInt64, DType::kFloat32, DType::kFloat64};

struct Entry {
  OpKind kind;
  absl::Span<const DType> dtypes;
  KernelFactory factory;
};

constexpr Entry kEntries[] = {
    {Op::kCopy, kAll, cpu::MakeCopy},
    {Op::kMatmul, kF32, cpu::MakeMatmul},
    {Op::kConvolution, kF32, cpu::MakeConvolution},
    {Op::kConvolutionBackwardInput, kF32, cpu::MakeConvolutionBackwardInput},
    {Op::kConvolutionBackwardWeight, kF32, cpu::MakeConvolutionBackwardWeight},
    {Op::kMaxPool, kFloats, cpu::MakeMaxPool},
    {Op::kMaxPoolBackward, kFloats, cpu::MakeMaxPoolBackward},
    {Op::kAvgPool, kFloats, cpu::MakeAvgPool},
    {Op::kAvgPoolBackward, kFloats, cpu::MakeAvgPoolBackward},
    {Op::kGather, kAll, cpu::MakeGather},
    {Op::kScatterAdd, kSummable, cpu::MakeScatterAdd},
    {Op::kConcat, kAll, cpu::MakeConcat},
    {Op::kAttention, kFloats, cpu::MakeAttention},
    {Op::kAttentionBackward, kFloats, cpu::MakeAttentionBackward},
};

}  // namespace

absl::Status RegisterCpuKernels(KernelRegistry& registry) {
  for (const Entry& entry : kEntries) {
    for (const DType dtype : entry.dtypes) {
      COTAN_RETURN_IF_ERROR(registry.Register(DeviceType::kCpu, entry.kind, dtype, entry.factory));
    }
  }
  return cpu::RegisterExprKernels(registry);
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
