// SPDX-License-Identifier: Apache-2.0

// Checks of the ops whose windows move over spatial dimensions: convolutions and pools.
#ifndef COTAN_KERNELS_API_WINDOW_CHECK_H_
#define COTAN_KERNELS_API_WINDOW_CHECK_H_

#include "absl/status/status.h"
#include "kernels/api/kernel.h"

namespace cotan::op_check {

// InvalidArgument: the op's attributes or operands violate program.proto; see CheckOp().
absl::Status CheckConvolution(const KernelRequest& request);
absl::Status CheckConvolutionBackwardInput(const KernelRequest& request);
absl::Status CheckConvolutionBackwardWeight(const KernelRequest& request);
absl::Status CheckMaxPool(const KernelRequest& request);
absl::Status CheckMaxPoolBackward(const KernelRequest& request);
absl::Status CheckAvgPool(const KernelRequest& request);
absl::Status CheckAvgPoolBackward(const KernelRequest& request);

}  // namespace cotan::op_check

#endif  // COTAN_KERNELS_API_WINDOW_CHECK_H_
