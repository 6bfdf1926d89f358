// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_KERNELS_CUDA_INDEXING_SCATTER_ADD_H_
#define COTAN_KERNELS_CUDA_INDEXING_SCATTER_ADD_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans the scatter_add op for integers and floats of any strides. Each element of the output is the base plus its
// addends in the order of the index, in f32 for halves, rounded once. An index that is out of range is recorded, and
// its row is not added; guarded outputs are not written then. Input 2 may be the output.
//
// A short index is searched by the warps that own rows of the output. A long one is first divided into lists for parts
// of the rows, which takes scratch for two numbers per element of the index. InvalidArgument: from CheckOp().
// Unimplemented: more than 2^31 - 1 blocks of threads.
absl::StatusOr<KernelPlan> PlanScatterAdd(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_INDEXING_SCATTER_ADD_H_
