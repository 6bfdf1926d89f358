// SPDX-License-Identifier: Apache-2.0

// The ops that the CUDA backend has, and the plan of each.
#ifndef COTAN_KERNELS_CUDA_PLAN_OP_H_
#define COTAN_KERNELS_CUDA_PLAN_OP_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "serialization/schema/op_kind.h"

namespace cotan::cuda {

// An op of the backend: plans ops of `kind` whose first output has one of `dtypes`.
struct CudaOp {
  OpKind kind;
  absl::Span<const DType> dtypes;
  PlanKernel plan;
  // Plans the op without a library that a machine may lack, or that may refuse the op on it. Null: `plan` does.
  PlanKernel own_kernels = nullptr;
  // Returns whether `own_kernels` is expected to be faster than `plan`, whose library rounds operands of f32 products
  // to TF32 if `tf32`. Null: never.
  bool (*prefers_own)(const KernelRequest& request, bool tf32) = nullptr;
};

// Returns all ops. Each pair of kind and dtype occurs once.
absl::Span<const CudaOp> CudaOps();

// An op of the CPU that the backend does not have for any dtype.
struct MissingOp {
  OpKind kind;
  absl::string_view reason;
};

absl::Span<const MissingOp> MissingOps();

// Returns the entry for an op. NotFound: the backend lacks ops of this kind whose first output has this dtype; the
// message has the reason of a MissingOp.
absl::StatusOr<const CudaOp*> FindCudaOp(const KernelRequest& request);

// Plans independent ops of one kind as few launches: expressions, or checks of indices. Inputs and outputs are numbered
// over all ops in order. Errors of PlanExprGroup() and PlanCheckedIndexGroup(). Unimplemented: ops of another kind.
absl::StatusOr<KernelPlan> PlanOpGroup(absl::Span<const KernelRequest> requests);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_PLAN_OP_H_
