// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/register_own_kernels.h"

#include "base/status_macros.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/cpu/half_precision/half_precision.h"
#include "kernels/cpu/indexing/checked_index.h"
#include "kernels/cpu/indexing/gather.h"
#include "kernels/cpu/linear_algebra/linear_algebra.h"
#include "kernels/cpu/pool/pool.h"
#include "kernels/cpu/portable/portable.h"
#include "kernels/cpu/recurrent/recurrent.h"
#include "kernels/cpu/scan/scan.h"
#include "kernels/cpu/sort/sort.h"

namespace cotan::cpu {
namespace {

using serialization::Op;

constexpr DType kAll[] = {DType::kBool,         DType::kUInt8,     DType::kInt8,      DType::kInt16,
                          DType::kInt32,        DType::kInt64,     DType::kFloat16,   DType::kBFloat16,
                          DType::kFloat32,      DType::kFloat64,   DType::kComplex64, DType::kComplex128,
                          DType::kFloat8E4m3fn, DType::kFloat8E5m2};
constexpr DType kF64[] = {DType::kFloat64};
constexpr DType kF64AndIntegers[] = {DType::kFloat64, DType::kInt32, DType::kInt64};
constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64};
constexpr DType kFloatsAndBFloat16[] = {DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kF16[] = {DType::kFloat16};
constexpr DType kIndexes[] = {DType::kInt32, DType::kInt64};
constexpr DType kHalves[] = {DType::kFloat16, DType::kBFloat16};
constexpr DType kSummable[] = {DType::kUInt8, DType::kInt8,    DType::kInt16,  DType::kInt32,
                               DType::kInt64, DType::kFloat32, DType::kFloat64};

constexpr DType kOrdered[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                              DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

constexpr KernelEntry kEntries[] = {
    {Op::kCopy, kAll, MakeCopy},
    {Op::kMatmul, kF64AndIntegers, MakePortableMatmul},
    {Op::kConvolution, kF64, MakePortableConvolution},
    {Op::kConvolutionBackwardInput, kF64, MakePortableConvolution},
    {Op::kConvolutionBackwardWeight, kF64, MakePortableConvolution},
    {Op::kMaxPool, kFloatsAndBFloat16, MakeMaxPool},
    {Op::kMaxPool, kF16, MakeWidened<MakeMaxPool>},
    {Op::kMaxPoolBackward, kFloatsAndBFloat16, MakeMaxPoolBackward},
    {Op::kMaxPoolBackward, kF16, MakeWidened<MakeMaxPoolBackward>},
    {Op::kAvgPool, kFloats, MakeAvgPool},
    {Op::kAvgPool, kHalves, MakeWidened<MakeAvgPool>},
    {Op::kAvgPoolBackward, kFloats, MakeAvgPoolBackward},
    {Op::kAvgPoolBackward, kHalves, MakeWidened<MakeAvgPoolBackward>},
    {Op::kGather, kAll, MakeGather},
    {Op::kScatterAdd, kSummable, MakeScatterAdd},
    {Op::kScatterAdd, kHalves, MakeWidened<MakeScatterAdd>},
    {Op::kCheckedIndex, kIndexes, MakeCheckedIndex},
    {Op::kScan, kSummable, MakeScan},
    {Op::kScan, kHalves, MakeWidened<MakeScan>},
    {Op::kSort, kOrdered, MakeSort},
    {Op::kConcat, kAll, MakeConcat},
    {Op::kAttention, kFloatsAndBFloat16, MakeAttention},
    {Op::kAttention, kF16, MakeWidened<MakeAttention>},
    {Op::kAttentionBackward, kFloatsAndBFloat16, MakeAttentionBackward},
    {Op::kAttentionBackward, kF16, MakeWidened<MakeAttentionBackward>},
    {Op::kRecurrent, kFloats, MakeRecurrent},
    {Op::kRecurrent, kHalves, MakeWidened<MakeRecurrent>},
    {Op::kRecurrentBackward, kFloats, MakeRecurrentBackward},
    {Op::kRecurrentBackward, kHalves, MakeWidened<MakeRecurrentBackward>},
    {Op::kLinearAlgebra, kFloats, MakeLinearAlgebra},
};

}  // namespace

absl::Status RegisterEntries(absl::Span<const KernelEntry> entries, KernelRegistry& registry) {
  for (const KernelEntry& entry : entries) {
    for (const DType dtype : entry.dtypes) {
      COTAN_RETURN_IF_ERROR(registry.Register(DeviceType::kCpu, entry.kind, dtype, entry.factory));
    }
  }
  return absl::OkStatus();
}

absl::Status RegisterOwnKernels(KernelRegistry& registry) {
  COTAN_RETURN_IF_ERROR(RegisterEntries(kEntries, registry));
  return RegisterExprKernels(registry);
}

}  // namespace cotan::cpu
