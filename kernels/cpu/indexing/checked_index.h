// SPDX-License-Identifier: Apache-2.0

// Validation of index tensors: copies an index if all of its elements are in range.
#ifndef COTAN_KERNELS_CPU_INDEXING_CHECKED_INDEX_H_
#define COTAN_KERNELS_CPU_INDEXING_CHECKED_INDEX_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factory of checked_index for i32 and i64, with any strides. The kernel copies the index and adds the size
// to negative elements.
// Run() fails with InvalidArgument for the first element, in row-major order, that is out of range (see
// IndexRange); the output is then undefined.
// InvalidArgument: from CheckOp().
absl::StatusOr<std::unique_ptr<Kernel>> MakeCheckedIndex(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_INDEXING_CHECKED_INDEX_H_
