// SPDX-License-Identifier: Apache-2.0

// Max and average pooling, forward and backward, f32 and f64, and max pooling of bf16.
#ifndef COTAN_KERNELS_CPU_POOL_POOL_H_
#define COTAN_KERNELS_CPU_POOL_POOL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of the pooling ops, with any strides; fastest where a dimension before the spatial ones is dense
// (channels last). Results are bitwise equal for any thread count.
//
// Indices are fastest in i32; i64 ones are converted. Gradients of bf16 are added in f32 and rounded once; where
// windows overlap, scratch memory holds the sums of one plane, with its lanes, for each thread.
//
// MakeMaxPoolBackward expects indices as max_pool wrote them, each within its own window. Run() fails with
// InvalidArgument for an index outside the input plane if the dimension before the spatial ones is not
// dense in the indices and the result; other indices that max_pool did not write give undefined values.
//
// InvalidArgument: from CheckOp(). Unimplemented: another dtype, or max pooling of a plane of 2^31 elements
// or more.
absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPool(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolBackward(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPool(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolBackward(const KernelRequest& request);

// The same for output 0 of dtype T, float or double, alone.
template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolOf(const KernelRequest& request);
template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolBackwardOf(const KernelRequest& request);
template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolOf(const KernelRequest& request);
template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolBackwardOf(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_POOL_H_
