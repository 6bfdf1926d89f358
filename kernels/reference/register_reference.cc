// SPDX-License-Identifier: Apache-2.0

#include "kernels/reference/register_reference.h"

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/reference/expr.h"
#include "kernels/reference/ops.h"

namespace cotan {
namespace {

using serialization::Op;

constexpr DType kDTypes[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                             DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

constexpr DType kStorageDTypes[] = {DType::kFloat8E4m3fn, DType::kFloat8E5m2};

struct Entry {
  OpKind kind;
  KernelFactory factory;
};

constexpr Entry kEntries[] = {
    {Op::kExpr, reference::MakeExpr},
    {Op::kCopy, reference::MakeCopy},
    {Op::kMatmul, reference::MakeMatmul},
    {Op::kConvolution, reference::MakeConvolution},
    {Op::kConvolutionBackwardInput, reference::MakeConvolutionBackwardInput},
    {Op::kConvolutionBackwardWeight, reference::MakeConvolutionBackwardWeight},
    {Op::kMaxPool, reference::MakeMaxPool},
    {Op::kMaxPoolBackward, reference::MakeMaxPoolBackward},
    {Op::kAvgPool, reference::MakeAvgPool},
    {Op::kAvgPoolBackward, reference::MakeAvgPoolBackward},
    {Op::kGather, reference::MakeGather},
    {Op::kScatterAdd, reference::MakeScatterAdd},
    {Op::kCheckedIndex, reference::MakeCheckedIndex},
    {Op::kScan, reference::MakeScan},
    {Op::kSort, reference::MakeSort},
    {Op::kConcat, reference::MakeConcat},
    {Op::kAttention, reference::MakeAttention},
    {Op::kAttentionBackward, reference::MakeAttentionBackward},
    {Op::kRecurrent, reference::MakeRecurrent},
    {Op::kRecurrentBackward, reference::MakeRecurrentBackward},
    {Op::kLinearAlgebra, reference::MakeLinearAlgebra},
};

// The ops that only move or convert elements.
constexpr Entry kStorageEntries[] = {
    {Op::kExpr, reference::MakeExpr},
    {Op::kCopy, reference::MakeCopy},
    {Op::kGather, reference::MakeGather},
    {Op::kConcat, reference::MakeConcat},
};

absl::Status RegisterAll(absl::Span<const Entry> entries, absl::Span<const DType> dtypes, KernelRegistry& registry) {
  for (const Entry& entry : entries) {
    for (const DType dtype : dtypes) {
      COTAN_RETURN_IF_ERROR(registry.Register(DeviceType::kCpu, entry.kind, dtype, entry.factory));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RegisterReferenceKernels(KernelRegistry& registry) {
  COTAN_RETURN_IF_ERROR(RegisterAll(kEntries, kDTypes, registry));
  return RegisterAll(kStorageEntries, kStorageDTypes, registry);
}

}  // namespace cotan
