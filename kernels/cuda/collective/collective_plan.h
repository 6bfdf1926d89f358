// SPDX-License-Identifier: Apache-2.0

// Plans of a GPU's work for a collective (Collective in program.proto) before, between and after the messages, for any
// number of ranks. Buffers, for W ranks and shards of n elements:
//   bucket    [W * n]    the tensors one after another, then padding
//   received  [W * n]    the rank's own shard of each rank, except of itself
//   marks     i32[W, 2]  of each rank: which collective it runs; not 0 if it had an error of values before
//   group     i64[4]     W, the rank's number, n, which collective this is
//
//   PlanPack, PlanMark -> messages -> PlanSum -> messages -> PlanUnpack
#ifndef COTAN_KERNELS_CUDA_COLLECTIVE_COLLECTIVE_PLAN_H_
#define COTAN_KERNELS_CUDA_COLLECTIVE_COLLECTIVE_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Copies tensors of one dtype, the inputs, to the start of the bucket, output 0.
// Unimplemented: more blocks than CUDA allows.
absl::StatusOr<KernelPlan> PlanPack(absl::Span<const TensorSpec> tensors);

// Copies the start of the bucket, input 0, to tensors of one dtype, the outputs. `guarded` as
// KernelRequest::guarded_outputs. Errors as PlanPack().
absl::StatusOr<KernelPlan> PlanUnpack(absl::Span<const TensorSpec> tensors, bool guarded);

// Sets the rank's elements of the marks, output 0. Input 0: the group.
absl::StatusOr<KernelPlan> PlanMark();

// Replaces the rank's shard of the bucket, output 0, by the sum of all ranks' in their order, divided by W if `mean`.
// Inputs: received, marks, group. If another rank had an error or runs another collective, the kernel records an error
// at the number of that rank, so that guarded outputs are left as they are on all ranks. `dtype` is f32 or f64.
absl::StatusOr<KernelPlan> PlanSum(DType dtype, bool mean, int64_t shard_elements);

// Plans a SHARD: copies the elements of the inputs from `first` on to output 0, and zeros behind the last one.
absl::StatusOr<KernelPlan> PlanShard(const KernelRequest& request, int64_t first);

// Returns plans with all kernels of a collective, for any number of ranks; offsets and grids are not those of a run.
// Errors as PlanPack().
absl::StatusOr<std::vector<KernelPlan>> PlansOfCollective(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COLLECTIVE_COLLECTIVE_PLAN_H_
