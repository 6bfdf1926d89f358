// SPDX-License-Identifier: Apache-2.0

// Convolutions of f32, bf16 and f16 by oneDNN, and by kernels of this project where they are faster (winograd.h,
// depthwise.h, pointwise.h): one to three spatial dimensions, groups, dilation, transposed.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of the convolution ops. Operands may have any strides; channels-last operands (dimension order
// {0, 2, 3, 1}) are read and written in place, other layouts are copied to scratch. Weights are reordered to
// oneDNN's layout in every run, because they may change between runs. f16, and bf16 unless onednn::HasFast(), are
// converted to f32 and back.
//
// The results are bitwise equal for any thread count. The sum of a weight gradient over the batch is split
// into parts whose number depends on the sizes only.
//
// InvalidArgument: from CheckOp().
absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolution(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolutionBackwardInput(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolutionBackwardWeight(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_H_
