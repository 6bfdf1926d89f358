// Max and average pooling, forward and backward, f32 and f64.
#ifndef COTAN_KERNELS_CPU_POOL_POOL_H_
#define COTAN_KERNELS_CPU_POOL_POOL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of the pooling ops. Any strides; fast where a dimension in front
// of the windows is dense (channels last). Bitwise equal for any thread count.
//
// MaxPoolBackward expects indices as max_pool wrote them: each one within its
// own window. With lanes that are not dense an index outside the plane is an
// InvalidArgument of Run(); other foreign indices give undefined numbers.
//
// InvalidArgument: from CheckOp().
absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPool(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolBackward(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPool(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolBackward(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_POOL_H_
