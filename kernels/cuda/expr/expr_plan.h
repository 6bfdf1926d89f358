// SPDX-License-Identifier: Apache-2.0

// Plans of expressions: generated kernels, one launch per op.
//
//   Expr --AnalyzeExpr()--> times and phases --Schedule...()--> threads --WriteKernels()--> parts --> launches
#ifndef COTAN_KERNELS_CUDA_EXPR_EXPR_PLAN_H_
#define COTAN_KERNELS_CUDA_EXPR_EXPR_PLAN_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/expr/schedule.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// A PlanKernel for expressions of all dtypes except complex ones. An output may share the memory of an input where
// InPlaceSafe() allows it.
// InvalidArgument: the op violates expr.proto.
// Unimplemented: a complex dtype, or more blocks than CUDA allows.
absl::StatusOr<KernelPlan> PlanExpr(const KernelRequest& request);

// As PlanExpr(), with other choices of the schedule.
absl::StatusOr<KernelPlan> PlanExprWith(const KernelRequest& request, const expr::ScheduleOptions& options);

// Returns one plan for independent expressions: none writes what another one reads or writes. Launch n of all ops is
// one launch, for ops with equal numbers of threads per block, as far as the parameters of a kernel suffice. Inputs and
// outputs are numbered over all ops in order: those of the first op, then those of the second one, and so on. Results
// have the same bits as those of PlanExpr().
// Errors as PlanExpr().
absl::StatusOr<KernelPlan> PlanExprGroup(absl::Span<const KernelRequest> requests);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_EXPR_EXPR_PLAN_H_
