// SPDX-License-Identifier: Apache-2.0

// Finds steps that compute the same with other operands, such as those of equal layers: one kernel serves all of them,
// and has one size of scratch memory.
#ifndef COTAN_PLANNING_KERNEL_KEY_H_
#define COTAN_PLANNING_KERNEL_KEY_H_

#include <string>

#include "absl/types/span.h"
#include "kernels/api/kernel.h"

namespace cotan {

// Returns the content of the requests of one kernel as bytes: their ops without the indices of values and the origin,
// and the dtypes and layouts of all operands. Kernels for one device, number of threads and set of symbols that have
// equal keys do the same.
std::string KernelKey(absl::Span<const KernelRequest> requests);

}  // namespace cotan

#endif  // COTAN_PLANNING_KERNEL_KEY_H_
