// SPDX-License-Identifier: Apache-2.0

#include "kernels/reference/register_reference.h"

#include "base/status_macros.h"
#include "kernels/reference/expr.h"
#include "kernels/reference/ops.h"

namespace cotan {
namespace {

using serialization::Op;

constexpr DType kDTypes[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                             DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

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
};

}  // namespace

absl::Status RegisterReferenceKernels(KernelRegistry& registry) {
  for (const Entry& entry : kEntries) {
    for (const DType dtype : kDTypes) {
      COTAN_RETURN_IF_ERROR(registry.Register(DeviceType::kCpu, entry.kind, dtype, entry.factory));
    }
  }
  return absl::OkStatus();
}

}  // namespace cotan
