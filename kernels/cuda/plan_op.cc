// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/plan_op.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/convolution/own_convolution.h"
#include "kernels/cuda/copy/concat.h"
#include "kernels/cuda/copy/copy.h"
#include "kernels/cuda/expr/expr_plan.h"
#include "kernels/cuda/indexing/checked_index.h"
#include "kernels/cuda/indexing/gather.h"
#include "kernels/cuda/indexing/scatter_add.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/pool/pool.h"
#include "kernels/cuda/recurrent/recurrent.h"
#include "kernels/cuda/scan/scan.h"
#include "kernels/cuda/sort/sort.h"

namespace cotan::cuda {
namespace {

using serialization::Op;

constexpr DType kAll[] = {DType::kBool,         DType::kUInt8,     DType::kInt8,      DType::kInt16,
                          DType::kInt32,        DType::kInt64,     DType::kFloat16,   DType::kBFloat16,
                          DType::kFloat32,      DType::kFloat64,   DType::kComplex64, DType::kComplex128,
                          DType::kFloat8E4m3fn, DType::kFloat8E5m2};
constexpr DType kConvertible[] = {DType::kBool,    DType::kUInt8,   DType::kInt8,         DType::kInt16,
                                  DType::kInt32,   DType::kInt64,   DType::kFloat16,      DType::kBFloat16,
                                  DType::kFloat32, DType::kFloat64, DType::kFloat8E4m3fn, DType::kFloat8E5m2};
constexpr DType kReal[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                           DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kSummable[] = {DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,  DType::kInt64,
                               DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kProducts[] = {DType::kInt32,    DType::kInt64,   DType::kFloat16,
                               DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kIndexes[] = {DType::kInt32, DType::kInt64};

absl::StatusOr<KernelPlan> PlanProduct(const KernelRequest& request) { return PlanMatmul(request, PlanExpr); }
absl::StatusOr<KernelPlan> PlanOwnProduct(const KernelRequest& request) { return PlanTiledMatmul(request, PlanExpr); }

constexpr CudaOp kOps[] = {
    {Op::kExpr, kConvertible, PlanExpr},
    {Op::kCopy, kAll, PlanCopy},
    {Op::kConcat, kAll, PlanConcat},
    {Op::kMatmul, kProducts, PlanProduct, PlanOwnProduct},
    {Op::kConvolution, kFloats, PlanCudnnConvolution, PlanOwnConvolution, PrefersOwnConvolution},
    {Op::kConvolutionBackwardInput, kFloats, PlanCudnnConvolution, PlanOwnConvolution, PrefersOwnConvolution},
    {Op::kConvolutionBackwardWeight, kFloats, PlanCudnnConvolution, PlanOwnConvolution, PrefersOwnConvolution},
    {Op::kMaxPool, kFloats, PlanMaxPool},
    {Op::kMaxPoolBackward, kFloats, PlanMaxPoolBackward},
    {Op::kAvgPool, kFloats, PlanAvgPool},
    {Op::kAvgPoolBackward, kFloats, PlanAvgPoolBackward},
    {Op::kGather, kAll, PlanGather},
    {Op::kScatterAdd, kSummable, PlanScatterAdd},
    {Op::kCheckedIndex, kIndexes, PlanCheckedIndex},
    {Op::kScan, kSummable, PlanScan},
    {Op::kSort, kReal, PlanSort},
    {Op::kAttention, kFloats, PlanAttention, PlanFlashAttention},
    {Op::kAttentionBackward, kFloats, PlanAttentionBackward, PlanFlashAttentionBackward},
    {Op::kRecurrent, kFloats, PlanRecurrent},
    {Op::kRecurrentBackward, kFloats, PlanRecurrentBackward},
};

constexpr MissingOp kMissing[] = {
    {Op::kLinearAlgebra,
     "decompositions run on CPUs; those of matrices of up to 32 rows and columns are compiled to expressions, which "
     "run "
     "on all devices"},
};

}  // namespace

absl::Span<const CudaOp> CudaOps() { return kOps; }

absl::Span<const MissingOp> MissingOps() { return kMissing; }

absl::StatusOr<const CudaOp*> FindCudaOp(const KernelRequest& request) {
  const OpKind kind = request.op.kind_case();
  const DType dtype = request.outputs[0].dtype;
  for (const CudaOp& op : kOps) {
    if (op.kind == kind && std::find(op.dtypes.begin(), op.dtypes.end(), dtype) != op.dtypes.end()) return &op;
  }
  const std::string message = absl::StrCat("no cuda kernel for ", OpKindName(kind), " of ", DTypeName(dtype));
  for (const MissingOp& missing : kMissing) {
    if (missing.kind == kind) return absl::NotFoundError(absl::StrCat(message, ": ", missing.reason));
  }
  return absl::NotFoundError(message);
}

absl::StatusOr<KernelPlan> PlanOpGroup(absl::Span<const KernelRequest> requests) {
  const OpKind kind = requests.empty() ? Op::kExpr : requests[0].op.kind_case();
  if (kind == Op::kExpr) return PlanExprGroup(requests);
  if (kind == Op::kCheckedIndex) return PlanCheckedIndexGroup(requests);
  return absl::UnimplementedError(absl::StrCat("groups of ", OpKindName(kind), ": only expr and checked_index"));
}

}  // namespace cotan::cuda
