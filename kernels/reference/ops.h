// SPDX-License-Identifier: Apache-2.0

// The factories of the reference kernels of all ops except expressions. All compute in double or int64 and
// round once. Errors as CheckOp().
#ifndef COTAN_KERNELS_REFERENCE_OPS_H_
#define COTAN_KERNELS_REFERENCE_OPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::reference {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

KernelOr MakeCopy(const KernelRequest& request);
KernelOr MakeMatmul(const KernelRequest& request);
KernelOr MakeConvolution(const KernelRequest& request);
KernelOr MakeConvolutionBackwardInput(const KernelRequest& request);
KernelOr MakeConvolutionBackwardWeight(const KernelRequest& request);
KernelOr MakeMaxPool(const KernelRequest& request);
KernelOr MakeMaxPoolBackward(const KernelRequest& request);
KernelOr MakeAvgPool(const KernelRequest& request);
KernelOr MakeAvgPoolBackward(const KernelRequest& request);
KernelOr MakeGather(const KernelRequest& request);
KernelOr MakeScatterAdd(const KernelRequest& request);
KernelOr MakeCheckedIndex(const KernelRequest& request);
KernelOr MakeScan(const KernelRequest& request);
KernelOr MakeRecurrent(const KernelRequest& request);
KernelOr MakeRecurrentBackward(const KernelRequest& request);
KernelOr MakeSort(const KernelRequest& request);
KernelOr MakeLinearAlgebra(const KernelRequest& request);
KernelOr MakeConcat(const KernelRequest& request);
KernelOr MakeAttention(const KernelRequest& request);
KernelOr MakeAttentionBackward(const KernelRequest& request);

}  // namespace cotan::reference

#endif  // COTAN_KERNELS_REFERENCE_OPS_H_
