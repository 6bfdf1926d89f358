// Elements along a dimension in order, or the first of them.
#ifndef COTAN_KERNELS_CPU_SORT_SORT_H_
#define COTAN_KERNELS_CPU_SORT_SORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factory of sort: every dtype but complex ones, any strides. Sorting n elements
// takes n log n steps; the first k of them n + k log k. The order is total (equal
// elements by index), so results do not depend on the thread count. Each thread
// has a line of keys as scratch.
// InvalidArgument: from CheckOp(). Unimplemented: a line of 2^32 elements or more.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSort(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_SORT_SORT_H_
