// Recurrent layers over all time steps, forward and backward, f32 and f64: per
// step a product with the packed weights and one pass over the gates, while the
// rows of the batch that a thread works on stay in its cache.
#ifndef COTAN_KERNELS_CPU_RECURRENT_RECURRENT_H_
#define COTAN_KERNELS_CPU_RECURRENT_RECURRENT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of recurrent and recurrent_backward. Any strides; operands whose
// last dimension is not dense are copied to scratch or from it. Bitwise equal
// for any thread count: threads share the batch, all steps of a row are made by
// one of them.
//
// InvalidArgument: from CheckOp(). Unimplemented: another dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrent(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrentBackward(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_RECURRENT_RECURRENT_H_
