// SPDX-License-Identifier: Apache-2.0

// Copies between layouts: the copy op, and the step by which other plans move operands.
#ifndef COTAN_KERNELS_CUDA_COPY_COPY_H_
#define COTAN_KERNELS_CUDA_COPY_COPY_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// One side of a copy. `argument` addresses element (0, ..., 0); layout.offset is not used.
struct CopyOperand {
  KernelArgument argument;
  StridedLayout layout;
};

// Appends to `plan` a step that copies `from` to `to`, elements of `element_bytes` (1, 2, 4, 8 or 16) bytes, at
// addresses that are multiples of `element_bytes`. The layouts have the same sizes; strides of `from` may be 0, and
// `to` addresses each element once. The operands do not overlap, except that they may be the same memory if their
// strides are equal. If `guarded`, the step leaves `to` as it is after an error (see PlanKernel). Nothing is appended
// if there are no elements. Unimplemented: more than 2^31 - 1 blocks of threads.
absl::Status AppendCopy(size_t element_bytes, const CopyOperand& from, const CopyOperand& to, bool guarded,
                        KernelPlan& plan);

// Plans the copy op for any dtype.
// InvalidArgument: from CheckOp(). Unimplemented: as AppendCopy().
absl::StatusOr<KernelPlan> PlanCopy(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COPY_COPY_H_
