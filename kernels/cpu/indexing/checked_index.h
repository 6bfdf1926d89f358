// Passes an index on if all of its elements are in range.
#ifndef COTAN_KERNELS_CPU_INDEXING_CHECKED_INDEX_H_
#define COTAN_KERNELS_CPU_INDEXING_CHECKED_INDEX_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factory of checked_index, i32 and i64, any strides.
// Run() fails with InvalidArgument for the first element, in row-major order,
// that is not allowed (IndexRange); the output is then undefined.
// InvalidArgument: from CheckOp().
absl::StatusOr<std::unique_ptr<Kernel>> MakeCheckedIndex(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_INDEXING_CHECKED_INDEX_H_
