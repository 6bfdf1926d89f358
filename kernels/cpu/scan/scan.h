// Running reductions along a dimension.
#ifndef COTAN_KERNELS_CPU_SCAN_SCAN_H_
#define COTAN_KERNELS_CPU_SCAN_SCAN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factory of scan: f32, f64 and integers, any strides. Time grows with the
// number of elements. f32 accumulates in f64; each line is one sequential chain,
// so results do not depend on the thread count.
// InvalidArgument: from CheckOp(). Unimplemented: LOGSUMEXP of integers, or a
// dtype that is none of the above.
absl::StatusOr<std::unique_ptr<Kernel>> MakeScan(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_SCAN_SCAN_H_
