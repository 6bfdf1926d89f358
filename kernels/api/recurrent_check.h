// SPDX-License-Identifier: Apache-2.0

// Checks of recurrent layers.
#ifndef COTAN_KERNELS_API_RECURRENT_CHECK_H_
#define COTAN_KERNELS_API_RECURRENT_CHECK_H_

#include "absl/status/status.h"
#include "kernels/api/kernel.h"

namespace cotan::op_check {

// InvalidArgument: the op's cell or operands violate program.proto; see CheckOp().
absl::Status CheckRecurrent(const KernelRequest& request);
absl::Status CheckRecurrentBackward(const KernelRequest& request);

}  // namespace cotan::op_check

#endif  // COTAN_KERNELS_API_RECURRENT_CHECK_H_
