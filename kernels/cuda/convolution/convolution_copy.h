// SPDX-License-Identifier: Apache-2.0

// The copies around a convolution of a library.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_COPY_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_COPY_H_

#include <optional>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Returns the launch of a kernel that copies `from` to `to`, tensors of the same sizes, [N, C, spatial...] with
// kSpatialDims spatial dimensions and not empty, and adds `bias`, one element per channel. `from` and `to` may be the
// same memory with the same layout. If `guarded`, the kernel does nothing after an error.
// Unimplemented: more than 2^31 blocks of threads.
absl::StatusOr<KernelLaunch> MakeConvolutionCopy(DType dtype, const ConvolutionOperand& from,
                                                 const std::optional<ConvolutionOperand>& bias,
                                                 const ConvolutionOperand& to, bool guarded);

// Returns the name of a floating-point type in kernels.
absl::string_view ElementName(DType dtype);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_COPY_H_
