// SPDX-License-Identifier: Apache-2.0

// Recurrent layers over all time steps, forward and backward, f32 and f64. Each step is a product with the
// packed weights and one pass over the gates; the batch rows of a thread stay in its cache.
#ifndef COTAN_KERNELS_CPU_RECURRENT_RECURRENT_H_
#define COTAN_KERNELS_CPU_RECURRENT_RECURRENT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of recurrent and recurrent_backward, with any strides; operands whose last dimension is not dense
// are copied to scratch. Results are bitwise equal for any thread count: threads share the batch, and one
// thread computes all steps of a batch row.
//
// InvalidArgument: from CheckOp(). Unimplemented: another dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrent(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrentBackward(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_RECURRENT_RECURRENT_H_
