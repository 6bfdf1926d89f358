// SPDX-License-Identifier: Apache-2.0

// Gather of rows by an index, its gradient scatter_add, and concat.
#ifndef COTAN_KERNELS_CPU_INDEXING_GATHER_H_
#define COTAN_KERNELS_CPU_INDEXING_GATHER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of gather (any dtype) and scatter_add (integers, f32, f64). Operands that are not row-major are
// copied to scratch. Results are bitwise equal for any thread count: scatter_add adds rows in index order,
// and threads share the elements of a row.
//
// Run() fails with InvalidArgument for an index outside [-size, size); the message has its position, its
// value and the range. scatter_add checks all indices before it adds.
// InvalidArgument: from CheckOp(). Unimplemented: scatter_add of another dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakeGather(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeScatterAdd(const KernelRequest& request);

// Factory of concat for any dtype and strides: it copies the inputs side by side. Results are bitwise equal
// for any thread count.
absl::StatusOr<std::unique_ptr<Kernel>> MakeConcat(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_INDEXING_GATHER_H_
