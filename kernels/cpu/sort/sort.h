// SPDX-License-Identifier: Apache-2.0

// Sort and top-k along a dimension.
#ifndef COTAN_KERNELS_CPU_SORT_SORT_H_
#define COTAN_KERNELS_CPU_SORT_SORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factory of sort for every dtype but complex ones, with any strides. Sorting a line of n elements takes O(n
// log n) steps, selecting its first k elements O(n + k log k). Equal elements are ordered by index (a stable
// sort), so results do not depend on the thread count. The scratch is one line of keys per thread.
// InvalidArgument: from CheckOp(). Unimplemented: a line of 2^32 elements or more, or a complex dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSort(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_SORT_SORT_H_
