// SPDX-License-Identifier: Apache-2.0

// Cumulative reductions along a dimension.
#ifndef COTAN_KERNELS_CPU_SCAN_SCAN_H_
#define COTAN_KERNELS_CPU_SCAN_SCAN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factory of scan for f32, f64 and integers, with any strides. The time is linear in the number of elements.
// f32 is accumulated in f64. One thread scans a line from end to end, so results do not depend on the thread
// count.
// InvalidArgument: from CheckOp(). Unimplemented: LOGSUMEXP of integers, or another dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakeScan(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_SCAN_SCAN_H_
